// SPDX-License-Identifier: MIT
// A C++ program with a graph of many small chunks: COUNT entries of a hash table, each with an object that has three parts with names of
// LENGTH bytes and 10 and 20 more (LENGTH: 20 unless told), and as many of a map from long names to vectors, 12 chunks in all; and 1,000
// lost objects. Says "ready", and waits for the end of its input.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace
{

struct Part {
    virtual ~Part() = default;
    std::string name;
};
struct Wheel : Part {
    int spokes[4] = {};
};
struct Car {
    std::vector<std::unique_ptr<Part>> parts;
};

std::unordered_map<int, std::unique_ptr<Car>> cars;
std::map<std::string, std::vector<int>> by_name;

std::unique_ptr<Car> make_car(std::size_t length)
{
    auto car = std::make_unique<Car>();
    for (int i = 0; i < 3; i++) {
        auto wheel = std::make_unique<Wheel>();
        wheel->name = std::string(length + 10 * static_cast<std::size_t>(i), 'w');
        car->parts.push_back(std::move(wheel));
    }
    return car;
}

} // namespace

int main(int argc, char **argv)
{
    int count = argc > 1 ? std::atoi(argv[1]) : 1000;
    std::size_t length = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 20;
    for (int i = 0; i < count; i++) {
        cars[i] = make_car(length);
        by_name["a rather long name of the car number " + std::to_string(i)] = std::vector<int>(5, i);
    }
    for (int i = 0; i < 1000; i++)
        (new Wheel)->name = std::string(40, 'l');
    std::puts("ready");
    std::fflush(stdout);
    return std::getchar() == EOF ? 0 : 1;
}
