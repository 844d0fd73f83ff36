package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/value/patch"
)

// patch applies patches to the entries of a View that shares its lists with the View before: by the keys of the lists, each
// with changed entries as their names and merge patches.
func (v *View) patch(text []byte) error {
	return patch.Members(text, func(key, list []byte) (err error) {
		switch string(key) {
		case "cpus":
			v.CPUs, err = patched(v.CPUs, list, func(a, b CPU) int { return a.ID - b.ID }, nameCPU, mergeCPU)
		case "workloads":
			v.Workloads, err = patched(v.Workloads, list, byName, nameWorkload, mergeWorkload)
		case "changes":
			v.Changes, err = patched(v.Changes, list, byPlace, nameChange, mergeChange)
		}
		return err
	})
}

// member takes one member of an object.
type member func(key, value []byte) error

// patched returns a list with its changed entries. It does not change the list. The changes have the order of the list,
// and one for each entry: a compromised node would else make a short line into work without end. patched looks for an
// entry behind the one before, and else by bisection.
func patched[T any](list []T, changed []byte, order func(a, b T) int, name func(*T) member, merge func(*T, []byte) error) ([]T, error) {
	list, next := slices.Clone(list), 0
	err := patch.Elements(changed, func(text []byte) error {
		var named T
		if err := patch.Members(text, name(&named)); err != nil {
			return err
		}
		at := next
		if at == len(list) || order(list[at], named) != 0 {
			behind, there := slices.BinarySearchFunc(list[next:], named, order)
			if at += behind; !there {
				return fmt.Errorf("%w: %.200s", ErrNoEntry, text)
			}
		}
		next = at + 1
		return merge(&list[at], text)
	})
	return list, err
}

func nameCPU(c *CPU) member {
	return func(key, value []byte) error {
		if string(key) != "id" {
			return nil
		}
		return whole(&c.ID, value)
	}
}

func nameWorkload(w *Workload) member {
	return func(key, value []byte) error {
		if string(key) != "name" {
			return nil
		}
		return words(&w.Name, value)
	}
}

func nameChange(c *Change) member {
	return func(key, value []byte) error {
		switch string(key) {
		case "object":
			return words(&c.Object, value)
		case "knob":
			return words(&c.Knob, value)
		}
		return nil
	}
}

// words decodes a text; null is the empty text.
func words[S ~string](into *S, value []byte) error {
	plain := len(value) > 1 && value[0] == '"' && !bytes.ContainsFunc(value, func(r rune) bool { return r == '\\' || r > '~' })
	if plain {
		*into = S(value[1 : len(value)-1])
		return nil
	}
	*into = ""
	return json.Unmarshal(value, into) //nolint:wrapcheck // Apply wraps it
}

func whole(into *int, value []byte) (err error) {
	*into, err = strconv.Atoi(string(value))
	return err //nolint:wrapcheck // Apply wraps it
}

func number(into *float64, value []byte) (err error) {
	*into, err = strconv.ParseFloat(string(value), 64)
	return err //nolint:wrapcheck // Apply wraps it
}

func count(into *uint64, value []byte) (err error) {
	*into, err = strconv.ParseUint(string(value), 10, 64)
	return err //nolint:wrapcheck // Apply wraps it
}

// mergeCPU applies a patch to a CPU. On a busy node each line has one for each CPU, so that encoding/json, which reads a
// text three times, would take most of the time of a reader. The same is true of quotas.
func mergeCPU(c *CPU, text []byte) error {
	return patch.Members(text, func(key, value []byte) error {
		switch string(key) {
		case "class":
			return words(&c.Class, value)
		case "holder":
			return words(&c.Holder, value)
		case "load":
			return number(&c.Load, value)
		}
		return nil
	})
}

// mergeQuota applies a patch to a quota.
func mergeQuota(q *capability.Quota, text []byte) error {
	return patch.Members(text, func(key, value []byte) error {
		switch string(key) {
		case "limitCPUs":
			return number(&q.Limit, value)
		case "nowCPUs":
			return number(&q.Now, value)
		case "creditCPUSeconds":
			return number(&q.Credit, value)
		case "capacityCPUSeconds":
			return number(&q.Capacity, value)
		case "periods":
			return count(&q.Periods, value)
		case "throttledPeriods":
			return count(&q.Throttled, value)
		case "throttledPeriodsAbove":
			return count(&q.Above, value)
		}
		return nil
	})
}

// mergeChange applies a patch to a change: in most cases to its last write alone.
func mergeChange(c *Change, text []byte) error {
	rest := false
	err := patch.Members(text, func(key, value []byte) error {
		switch string(key) {
		case "object", "knob":
			return nil
		case "written":
			return words(&c.Written, value)
		case "writes":
			return whole(&c.Writes, value)
		}
		rest = true
		return nil
	})
	if err != nil || !rest {
		return err
	}
	return mergePlain(c, text)
}

// mergePlain applies a patch to a value without pointers, maps and lists. encoding/json leaves a field as it is if its
// new value is null. So a patch with null is applied to the JSON of the value.
func mergePlain[T any](one *T, text []byte) error {
	if !bytes.Contains(text, []byte("null")) {
		return json.Unmarshal(text, one) //nolint:wrapcheck // Apply wraps it
	}
	was, err := json.Marshal(one)
	if err == nil {
		was, err = patch.Merge(nil, was, text)
	}
	if err != nil {
		return err
	}
	var next T
	if err = json.Unmarshal(was, &next); err == nil {
		*one = next
	}
	return err //nolint:wrapcheck // Apply wraps it
}

// mergeWorkload applies a patch to a workload. The View before keeps the parts that change.
func mergeWorkload(w *Workload, text []byte) error {
	return patch.Members(text, func(key, value []byte) error {
		switch string(key) {
		case "status":
			return mergePart(&w.Status, value, mergeStatus)
		case "cpus":
			return mergePart(&w.CPUs, value, mergePlain)
		case "quota":
			return mergePart(&w.Quota, value, mergeQuota)
		case "throttling":
			return mergePart(&w.Throttling, value, mergePlain)
		}
		return nil
	})
}

// mergePart applies a patch to a copy of a part, which may be missing; null removes it.
func mergePart[T any](part **T, text []byte, merge func(*T, []byte) error) error {
	if string(text) == "null" {
		*part = nil
		return nil
	}
	var next T
	if *part != nil {
		next = **part
	}
	*part = &next
	return merge(&next, text)
}

// mergeStatus applies a patch to a status. Sections stay undecoded.
func mergeStatus(s *Status, text []byte) error {
	common := []byte{'{'}
	cloned := false
	err := patch.Members(text, func(key, value []byte) error {
		switch string(key) {
		case "warnings":
			s.Warnings = nil // it shares the list with the View before
			fallthrough
		case "name", "file", "group", "state", "reason", "since", "policy", "policySource":
			if len(common) > 1 {
				common = append(common, ',')
			}
			common = append(append(append(append(common, '"'), key...), '"', ':'), value...)
			return nil
		}
		if !cloned {
			s.Sections, cloned = maps.Clone(s.Sections), true
		}
		return mergeSection(&s.Sections, string(key), value)
	})
	if err != nil || len(common) == 1 {
		return err
	}
	return mergePlain(&s.Workload, append(common, '}'))
}

// mergeSection applies a patch to one section, or removes it.
func mergeSection(all *capability.Sections, key string, text []byte) error {
	if string(text) == "null" {
		delete(*all, key)
		return nil
	}
	was, read := (*all)[key].(json.RawMessage)
	if !read { // of a View that was not decoded
		if err := all.Decode(key, &was); err != nil {
			return err
		}
	}
	next, err := patch.Merge(nil, was, text)
	if err != nil {
		return err
	}
	if *all == nil {
		*all = capability.Sections{}
	}
	(*all)[key] = json.RawMessage(next)
	return nil
}
