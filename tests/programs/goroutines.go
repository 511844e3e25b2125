// SPDX-License-Identifier: MIT

// Has goroutines that wait, some of them with large stacks, and some that have ended. For each line of its input it prints what Go says of
// its goroutines, in number, and of the memory that it has for stacks, in bytes. From the line "collect" on it collects garbage all
// the time. Go's own goroutines, and those that wait, are printed at SIGQUIT.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

var kept [][]byte

func deep(levels int, done *sync.WaitGroup, wait chan int) byte {
	var block [1024]byte
	block[levels%1024] = 1
	if levels > 0 {
		return deep(levels-1, done, wait) + block[levels]
	}
	done.Done()
	<-wait
	return block[0]
}

func start(count, levels int, wait chan int) {
	var done sync.WaitGroup
	done.Add(count)
	for i := 0; i < count; i++ {
		go deep(levels, &done, wait)
	}
	done.Wait()
}

func main() {
	debug.SetGCPercent(-1)
	never, soon := make(chan int), make(chan int)
	start(3000, 0, soon)
	start(5000, 0, never)
	start(300, 10, never)
	start(20, 200, never)
	close(soon)
	for runtime.NumGoroutine() > 5321 {
		runtime.Gosched()
	}
	for i := 0; i < 20000; i++ {
		kept = append(kept, make([]byte, 1000))
	}
	runtime.GC()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "collect" {
			go func() {
				for {
					runtime.GC()
				}
			}()
		}
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		fmt.Println(runtime.NumGoroutine(), stats.StackInuse)
	}
}
