// SPDX-License-Identifier: MIT

// Holds slices in Go's heap. For each line of its input it prints what Go says of the memory that it has for heap and stacks, in bytes.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
)

var kept [][]byte

func main() {
	debug.SetGCPercent(-1)
	for i := 0; i < 90000; i++ {
		block := make([]byte, 1000)
		block[0] = 1
		if i%3 != 0 {
			kept = append(kept, block)
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		fmt.Println(stats.HeapSys + stats.StackInuse)
	}
}
