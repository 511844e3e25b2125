// SPDX-License-Identifier: MIT

// Grows to a peak and shrinks to a sixteenth of it, in cycles, then frees all: with C.calloc and C.free, from goroutines that
// the runtime moves from thread to thread. Arguments: GOROUTINES PEAK_MIB CYCLES.
package main

// #include <stdlib.h>
// #include <string.h>
import "C"

import (
	"bufio"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strconv"
	"sync"
	"unsafe"
)

const (
	smallest = 4 << 10
	largest  = 64 << 10
	kept     = 16
)

type block struct {
	at   unsafe.Pointer
	size int
}

// What one goroutine works on at a time.
type share struct {
	blocks []block
	bytes  int
	calls  int
	random *rand.Rand
}

func (s *share) grow(target int) {
	for s.bytes < target {
		size := smallest + s.random.Intn(largest-smallest)
		at := C.calloc(1, C.size_t(size))
		if at == nil {
			fmt.Fprintln(os.Stderr, "cycles: calloc failed")
			os.Exit(1)
		}
		C.memset(at, 1, C.size_t(size)) // calloc need not touch it
		s.blocks = append(s.blocks, block{at, size})
		s.bytes += size
		s.calls++
	}
}

func (s *share) shrink(target int) {
	for len(s.blocks) > 0 && s.bytes > target {
		which := s.random.Intn(len(s.blocks))
		C.free(s.blocks[which].at)
		s.bytes -= s.blocks[which].size
		s.blocks[which] = s.blocks[len(s.blocks)-1]
		s.blocks = s.blocks[:len(s.blocks)-1]
		s.calls++
	}
}

func each(shares []*share, work func(*share)) {
	var all sync.WaitGroup
	for _, one := range shares {
		all.Add(1)
		go func(s *share) {
			defer all.Done()
			work(s)
		}(one)
	}
	all.Wait()
}

func main() {
	var numbers []int
	for _, word := range os.Args[1:] {
		number, err := strconv.Atoi(word)
		if err == nil && number > 0 {
			numbers = append(numbers, number)
		}
	}
	if len(numbers) != 3 {
		fmt.Fprintln(os.Stderr, "usage: cycles GOROUTINES PEAK_MIB CYCLES")
		os.Exit(2)
	}
	goroutines, peak, cycles := numbers[0], numbers[1]<<20, numbers[2]
	stdin := bufio.NewReader(os.Stdin)
	mark := func(name string, cycle int) {
		fmt.Printf("arenascope mark %s-%d\n", name, cycle)
		_, _ = stdin.ReadString('\n')
	}
	var shares []*share
	for i := 0; i < goroutines; i++ {
		shares = append(shares, &share{random: rand.New(rand.NewSource(int64(i)))})
	}
	fmt.Println("ready")
	for cycle := 1; cycle <= cycles; cycle++ {
		each(shares, func(s *share) { s.grow(peak / goroutines) })
		mark("peak", cycle)
		each(shares, func(s *share) { s.shrink(peak / kept / goroutines) })
		mark("trough", cycle)
	}
	each(shares, func(s *share) { s.shrink(0) })
	calls := 0
	for _, s := range shares {
		calls += s.calls
	}
	fmt.Printf("arenascope report operations=%d\n", calls)
	fmt.Println("done")
	_, _ = io.Copy(io.Discard, stdin)
}
