package query

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// mostText is the maximum length of a query or a selector, in bytes.
const mostText = 8 << 10

// latest is the last time that a parameter may name, in seconds since 1970: the end of the year 9999.
const latest = 253402300799

// form are the parameters of a request.
type form struct{ url.Values }

func readForm(raw string) (form, error) {
	all, err := url.ParseQuery(raw)
	if err != nil {
		return form{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return form{Values: all}, nil
}

// refused returns the error for a parameter with an invalid value.
func (f form) refused(name, allowed string) error {
	value := f.Get(name)
	if len(value) > mostText {
		value = value[:100] + "…"
	}
	return fmt.Errorf("%w: parameter %q: value %q: allowed: %s", ErrRequest, name, value, allowed)
}

// query returns the text of the query.
func (f form) query() (string, error) {
	text := f.Get("query")
	if text == "" || len(text) > mostText {
		return "", f.refused("query", fmt.Sprintf("an expression of 1 to %d bytes", mostText))
	}
	return text, nil
}

// time returns a parameter in seconds since 1970 or in RFC 3339 format, and otherwise if it is absent.
func (f form) time(name string, otherwise time.Time) (time.Time, error) {
	text := f.Get(name)
	if text == "" {
		return otherwise, nil
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(seconds) <= latest {
		return time.UnixMilli(int64(math.Round(seconds * 1000))), nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	return time.Time{}, f.refused(name, "seconds since 1970, or a time as 2026-11-23T12:00:00Z")
}

// duration returns a parameter in seconds or in the form 1m30s, of at least 1 ms, and otherwise if it is absent.
func (f form) duration(name string, otherwise time.Duration) (time.Duration, error) {
	text := f.Get(name)
	if text == "" {
		return otherwise, nil
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if seconds >= 0.001 && seconds <= latest/1000 {
			return time.Duration(seconds * float64(time.Second)).Truncate(time.Millisecond), nil
		}
	} else if d, err := model.ParseDuration(text); err == nil && d > 0 {
		return time.Duration(d), nil
	}
	return 0, f.refused(name, "seconds of at least 0.001, or a duration as 1m30s")
}

// span returns the parameters start and end, each with its default. It refuses an end before the start.
func (f form) span(start, end time.Time) (from, until time.Time, err error) {
	if from, err = f.time("start", start); err != nil {
		return from, until, err
	}
	if until, err = f.time("end", end); err != nil {
		return from, until, err
	}
	if until.Before(from) {
		return from, until, f.refused("end", "a time from start on")
	}
	return from, until, nil
}

// selectors returns the selectors of the parameters match[].
func (f form) selectors() ([][]*labels.Matcher, error) {
	var all [][]*labels.Matcher
	const most = 32
	if len(f.Values["match[]"]) > most {
		return nil, fmt.Errorf("%w: parameter \"match[]\": %d times: allowed: %d times", ErrRequest, len(f.Values["match[]"]), most)
	}
	for _, text := range f.Values["match[]"] {
		if len(text) > mostText {
			return nil, f.refused("match[]", fmt.Sprintf("a selector of at most %d bytes", mostText))
		}
		matchers, err := parser.ParseMetricSelector(text)
		if err != nil {
			return nil, fmt.Errorf("%w: parameter \"match[]\": value %q: %w", ErrRequest, text, err)
		}
		all = append(all, matchers)
	}
	return all, nil
}
