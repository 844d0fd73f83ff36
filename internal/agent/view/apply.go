package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Apply returns the View after a line of a stream: the View in the line, or v with the changes in the line. Before the
// first line v is nil. Apply does not change v; both share the parts without changes. It ignores keys that this version
// does not know. If the error is ErrFormat, ErrNoView or ErrNoEntry, or the line is not JSON, the stream is of no further
// use.
func (v *View) Apply(line []byte) (*View, error) {
	var head keys
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, fmt.Errorf("decode a line of the view: %w", err)
	}
	switch {
	case head.Format == Format:
		var whole View
		if err := json.Unmarshal(line, &whole); err != nil {
			return nil, fmt.Errorf("decode the view: %w", err)
		}
		return &whole, nil
	case head.Format != 0:
		return nil, fmt.Errorf("%w: version %d: allowed: %d", ErrFormat, head.Format, Format)
	case v == nil || head.Set == nil:
		return nil, ErrNoView
	}
	next := *v
	if err := next.change(&head); err != nil {
		return nil, fmt.Errorf("decode the changes of the view: %w", err)
	}
	return &next, nil
}

// keys are the keys of a line. Another format may have other types in any but the first.
type keys struct {
	Format    int             `json:"v"`
	Set       json.RawMessage `json:"set"`
	CPUs      json.RawMessage `json:"cpus"`
	Workloads json.RawMessage `json:"workloads"`
	Changes   json.RawMessage `json:"changes"`
	Patches   json.RawMessage `json:"patches"`
	Gone      json.RawMessage `json:"gone"`
	Events    json.RawMessage `json:"events"`
}

// change applies the parts of a line to a View that shares its parts with the View before.
func (v *View) change(p *keys) error {
	if err := v.replace(p.Set); err != nil {
		return err
	}
	if len(p.Patches) > 0 {
		if err := v.patch(p.Patches); err != nil {
			return err
		}
	}
	var d Delta
	var gone Gone
	if err := errors.Join(part(p.CPUs, &d.CPUs), part(p.Workloads, &d.Workloads), part(p.Changes, &d.Changes), part(p.Gone, &gone), part(p.Events, &d.Events)); err != nil {
		return err
	}
	v.CPUs = merged(v.CPUs, d.CPUs, nil, func(c *CPU) int { return c.ID }, func(a, b CPU) int { return a.ID - b.ID })
	v.Workloads = merged(v.Workloads, d.Workloads, gone.Workloads, func(w *Workload) string { return w.Name }, byName)
	v.Changes = merged(v.Changes, d.Changes, gone.Changes, (*Change).place, byPlace)
	events := append(slices.Clip(v.Events), d.Events...)
	v.Events = events[max(0, len(events)-kept):]
	return nil
}

// part decodes a part of a line that may be missing.
func part(text json.RawMessage, into any) error {
	if len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, into) //nolint:wrapcheck // Apply wraps it
}

// replace sets the fields whose keys a JSON object has. It first clears them, because encoding/json would write into
// the lists and the machine of the View before.
func (v *View) replace(object json.RawMessage) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(object, &keys); err != nil {
		return fmt.Errorf("decode the changed keys of the view: %w", err)
	}
	fields := reflect.ValueOf(v).Elem()
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
		for key := range keys {
			if strings.EqualFold(key, name) { // as encoding/json compares them
				fields.Field(i).SetZero()
			}
		}
	}
	if err := json.Unmarshal(object, v); err != nil {
		return fmt.Errorf("decode the changed keys of the view: %w", err)
	}
	return nil
}

// merged returns a list in order with the changed and new entries, and without the entries that are gone. It does not
// change the list.
func merged[T any, K comparable](list, changed []T, gone []K, name func(*T) K, order func(a, b T) int) []T {
	if len(changed) == 0 && len(gone) == 0 {
		return list
	}
	old := make(map[K]bool, len(changed)+len(gone))
	for _, n := range gone {
		old[n] = true
	}
	for i := range changed {
		old[name(&changed[i])] = true
	}
	all := make([]T, 0, len(list)+len(changed))
	for i := range list {
		if !old[name(&list[i])] {
			all = append(all, list[i])
		}
	}
	all = append(all, changed...)
	slices.SortStableFunc(all, order)
	return all
}
