package cli

import "context"

// orInterrupted does work that cannot be stopped from outside, such as a read from standard input or the parsing of a
// large file. If ctx ends first, orInterrupted returns the error of ctx and leaves its goroutine behind, the only one
// in the program. Nothing ends a read from a terminal, and the end of ctx ends the process. work must change nothing
// that outlives the process.
func orInterrupted[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := work()
		done <- outcome{value, err}
	}()
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err() //nolint:wrapcheck // Run says "interrupted"
	case o := <-done:
		return o.value, o.err
	}
}
