// Program pi computes digits of Pi on many threads at once. It replaces the image java-pi of ACK's documentation, and
// has the same environment variables and output.
//
//	limit       number of digits (default 20000)
//	threadNum   number of threads that share the work (default 1)
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/berth-project/berth/internal/proof/load"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pi:", err)
		os.Exit(1)
	}
}

func run() error {
	digits, err := number("limit", 20000)
	if err != nil {
		return err
	}
	threads, err := number("threadNum", 1)
	if err != nil {
		return err
	}
	fmt.Printf("computing Pi with %d Threads...", threads)
	load.LetRun(threads)
	start := time.Now()
	pi := load.Pi(digits, threads)
	fmt.Printf("computed the first %d digets of pi in %d ms!\n", digits, time.Since(start).Milliseconds())
	fmt.Printf("the first digets are: %.10s\nwriting to pi.txt...\n", pi)
	if err := os.WriteFile(filepath.Join(os.TempDir(), "pi.txt"), []byte(pi+"\n"), 0o644); err != nil {
		return err
	}
	fmt.Println("finished!")
	return nil
}

// number returns an environment variable as a number from 1 to a million.
func number(name string, otherwise int) (int, error) {
	text, set := os.LookupEnv(name)
	if !set {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1_000_000 {
		return 0, fmt.Errorf("%s=%q: want a number from 1 to 1000000", name, text)
	}
	return n, nil
}
