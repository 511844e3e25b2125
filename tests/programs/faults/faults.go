// SPDX-License-Identifier: MIT

// Recovers from nil dereferences, each of which is a SIGSEGV, as net/http does. Ends when stdin does.
package main

// #include <stdlib.h>
import "C"

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

type pair struct{ a, b int }

func load(p *pair) (result int) {
	defer func() {
		if recover() != nil {
			result = 7
		}
	}()
	return p.b
}

func main() {
	var ended int32
	C.free(C.malloc(10)) // with libc
	go func() {
		io.Copy(io.Discard, os.Stdin)
		atomic.StoreInt32(&ended, 1)
	}()
	fmt.Println("ready")
	for atomic.LoadInt32(&ended) == 0 {
		for i := 0; i < 200; i++ {
			if load(nil) != 7 {
				os.Exit(3)
			}
		}
	}
	fmt.Println("ended well")
}
