package schedule

import (
	"fmt"
	"sync"
	"testing"
)

// A lookup always finds a known node, also while other goroutines add nodes.
func TestDirectoryFindsWhatItKnows(t *testing.T) {
	for round := range 300 {
		d := &directory{}
		for i := range 40 {
			d.findOrAdd(fmt.Sprint("base", i))
		}
		d.findOrAdd("x")
		var group sync.WaitGroup
		stop := make(chan struct{})
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if d.find("x") == nil {
					t.Errorf("round %d: a known node was not found", round)
					return
				}
			}
		})
		for i := range 60 {
			d.findOrAdd(fmt.Sprint("more", i))
		}
		close(stop)
		group.Wait()
	}
}
