package v1alpha1

import (
	"errors"
	"slices"
	"strings"
)

// ErrInvalid is the class of all problems in what a user wrote: exit code 2.
var ErrInvalid = errors.New("invalid input")

// FieldError is one problem in what a user wrote.
type FieldError struct {
	// File is the file that has the problem; empty if there is none.
	File string
	// Field is the path of the field, for example "spec.pids[0]"; empty if the text as a whole cannot be read.
	Field string
	// Value is the present value, quoted and shortened; empty if the field is missing.
	Value string
	// Allowed says which values are allowed; "only with X" is a condition.
	Allowed string
}

// Error returns "file: field F: value V: allowed: A" without an absent file or field. An absent value is "missing", and
// a condition is "only allowed with X".
func (e FieldError) Error() string {
	var parts []string
	if e.File != "" {
		parts = append(parts, e.File)
	}
	if e.Field != "" {
		parts = append(parts, "field "+e.Field)
	}
	if e.Value != "" {
		parts = append(parts, "value "+e.Value)
	} else {
		parts = append(parts, "missing")
	}
	allowed := "allowed: " + e.Allowed
	if condition, found := strings.CutPrefix(e.Allowed, "only with "); found {
		allowed = "only allowed with " + condition
	}
	return strings.Join(append(parts, allowed), ": ")
}

// Is reports whether target is ErrInvalid: every FieldError is one.
func (e FieldError) Is(target error) bool { return target == ErrInvalid }

// FieldErrors is a non-empty list of problems as one error.
type FieldErrors []FieldError

// Error returns the problems, one per line.
func (e FieldErrors) Error() string { return e.join("\n") }

// Line returns the problems on one line, for events.
func (e FieldErrors) Line() string { return e.join("; ") }

func (e FieldErrors) join(separator string) string {
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.Error()
	}
	return strings.Join(texts, separator)
}

// Unwrap lets errors.Is and errors.As see each problem.
func (e FieldErrors) Unwrap() []error {
	all := make([]error, len(e))
	for i, one := range e {
		all[i] = one
	}
	return all
}

// Err returns the list as an error, or nil if it is empty.
func (e FieldErrors) Err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

// InAnnotation returns the problems of an annotation's value, with their fields below the annotation's field.
func (e FieldErrors) InAnnotation(key string) FieldErrors {
	all := slices.Clone(e)
	for i, problem := range all {
		if all[i].Field = "metadata.annotations[" + key + "]"; problem.Field != "" {
			all[i].Field += "." + problem.Field
		}
	}
	return all
}

// InFile returns the problems with File set on each problem without a file.
func (e FieldErrors) InFile(file string) FieldErrors {
	named := make(FieldErrors, len(e))
	for i, one := range e {
		if one.File == "" {
			one.File = file
		}
		named[i] = one
	}
	return named
}
