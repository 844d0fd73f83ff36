package query

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

const (
	// mostSteps is the maximum of moments in a query, or a subquery.
	mostSteps = 11_000
	// mostVisits is how often samples of a subquery may be read, for all moments together.
	mostVisits = 10_000_000
	// mostGrown is how many times as long labels may become. Nothing else bounds the engine's memory for labels, and it
	// checks no deadline while it makes them.
	mostGrown = 64
	// usualStep is the step of a subquery that names none.
	usualStep = 15 * time.Second
)

// moments are the times at which an expression is evaluated.
type moments struct {
	span, step time.Duration
	// grown is the factor by which labels may have grown, compared with the stored labels.
	grown int
}

// count returns the number of moments.
func (m moments) count() int64 {
	if m.step <= 0 {
		return 1
	}
	return int64(m.span/m.step) + 1
}

// bound returns ErrCost if an expression costs too much at these moments. The engine would find out only between two
// series, and a series without samples has as many moments.
func bound(n parser.Node, at moments) error {
	if steps := at.count(); steps > mostSteps {
		return fmt.Errorf("%w: %s in steps of %s are %d moments; allowed: %d", ErrCost, at.span, at.step, steps, mostSteps)
	}
	if call, is := n.(*parser.Call); is {
		if at.grown = max(at.grown, 1) * growth(call); at.grown > mostGrown {
			return fmt.Errorf("%w: %s makes labels up to %d times as long; allowed: %d", ErrCost, call.Func.Name, at.grown, mostGrown)
		}
	}
	if sub, is := n.(*parser.SubqueryExpr); is {
		step := sub.Step
		if step == 0 {
			step = usualStep
		}
		window := moments{span: sub.Range, step: step}
		if visits := at.count() * window.count(); visits > mostVisits {
			return fmt.Errorf("%w: the subquery %s has %d samples, at %d moments; allowed: %d together", ErrCost, sub, window.count(), at.count(), mostVisits)
		}
		// A span that overflows becomes the longest one: a time before the first sample is allowed.
		at = moments{span: at.span + min(sub.Range, math.MaxInt64-at.span), step: step, grown: at.grown}
	}
	for _, child := range parser.Children(n) {
		if err := bound(child, at); err != nil {
			return err
		}
	}
	return nil
}

// growth returns the factor by which a function may lengthen labels.
func growth(call *parser.Call) int {
	switch call.Func.Name {
	case "label_replace":
		const replacement = 2
		return 1 + strings.Count(call.Args[replacement].String(), "$")
	case "label_join":
		const fixed = 2 // all but the joined labels, and a separator
		return max(1, len(call.Args)-fixed)
	}
	return 1
}
