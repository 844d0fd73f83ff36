package cli

import "context"

// orInterrupted does work that cannot be stopped from outside: a read from
// standard input, the parsing of a large file. When ctx ends first, so does
// orInterrupted, with the error of ctx. The goroutine is then left behind, the
// only one of the program: nothing ends a read from a terminal, and what ctx
// ends here is the process. work must change nothing that outlives it.
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
