package query

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

const (
	// mostSteps is how many moments a query, or a subquery, is evaluated at.
	mostSteps = 11_000
	// mostVisits is how often samples of a subquery are looked at, for all moments together.
	mostVisits = 10_000_000
	// mostGrown is how many times as long labels may become: what the engine holds of them is
	// bounded by nothing else, and it asks for no time while it makes them.
	mostGrown = 64
	// usualStep is that of a subquery that names none.
	usualStep = 15 * time.Second
)

// moments are those at which an expression is evaluated.
type moments struct {
	span, step time.Duration
	// grown is how many times as long as they are kept labels may become on the way.
	grown int
}

// count is how many there are.
func (m moments) count() int64 {
	if m.step <= 0 {
		return 1
	}
	return int64(m.span/m.step) + 1
}

// bound says why an expression that is evaluated at some moments costs too much. The engine
// would find out only between two series, and a series without samples has as many moments.
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
		// A span that does not fit is the longest one: a time before all others is allowed.
		at = moments{span: at.span + min(sub.Range, math.MaxInt64-at.span), step: step, grown: at.grown}
	}
	for _, child := range parser.Children(n) {
		if err := bound(child, at); err != nil {
			return err
		}
	}
	return nil
}

// growth is how many times as long a function may make labels.
func growth(call *parser.Call) int {
	switch call.Func.Name {
	case "label_replace":
		const replacement = 2
		return 1 + strings.Count(call.Args[replacement].String(), "$")
	case "label_join":
		const fixed = 2 // all but the labels that it joins, and a separator
		return max(1, len(call.Args)-fixed)
	}
	return 1
}
