package profile

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
)

// ErrUnknown means that there is no profile of that name.
var ErrUnknown = errors.New("no such profile")

// Document is one profile as it was read.
type Document struct {
	v1alpha1.Profile
	// Locate adds file and line to problems of this document. It may be nil.
	Locate func(v1alpha1.FieldErrors) v1alpha1.FieldErrors
}

func (d Document) located(e v1alpha1.FieldErrors) v1alpha1.FieldErrors {
	if d.Locate == nil || len(e) == 0 {
		return e
	}
	return d.Locate(e)
}

// Load returns the document of a name. The error is ErrUnknown if there is none.
type Load func(name string) (Document, error)

// longest is the largest number of ancestors.
const longest = 16

// Whole returns a document with all that it inherits, and the parents' names, nearest first. It checks each document.
// Problems are v1alpha1.ErrInvalid, located in the document that has them.
func Whole(d Document, load Load) (Document, []string, error) {
	var parents []string
	chain := []Document{d}
	problems := d.located(Check(d.Profile))
	for at := d; at.Spec.Inherit != ""; at = chain[len(chain)-1] {
		name := at.Spec.Inherit
		refuse := func(allowed string) v1alpha1.FieldErrors {
			return at.located(problem("spec.inherit", name, allowed))
		}
		if name == d.Name || slices.Contains(parents, name) {
			return d, nil, append(problems, refuse("a profile that does not inherit from this one: "+strings.Join(append(append([]string{d.Name}, parents...), name), " -> "))...)
		}
		if len(parents) == longest {
			return d, nil, append(problems, refuse("at most 16 ancestors")...)
		}
		parent, err := load(name)
		if errors.Is(err, ErrUnknown) {
			return d, nil, append(problems, refuse("the name of a profile that berth tune list shows")...)
		}
		if err != nil {
			return d, nil, errors.Join(problems.Err(), err)
		}
		problems = append(problems, parent.located(Check(parent.Profile))...)
		parents = append(parents, name)
		chain = append(chain, parent)
	}
	if err := problems.Err(); err != nil {
		return d, nil, err
	}
	whole := chain[len(chain)-1].Profile
	for i := len(chain) - 2; i >= 0; i-- {
		whole = merge(whole, chain[i].Profile)
	}
	return Document{Profile: whole, Locate: d.Locate}, parents, nil
}

// merge returns child with the parent's entries that child lacks.
func merge(parent, child v1alpha1.Profile) v1alpha1.Profile {
	child.Spec.CPUs = mergeMaps(parent.Spec.CPUs, child.Spec.CPUs)
	child.Spec.Settings = mergeMaps(parent.Spec.Settings, child.Spec.Settings)
	if child.Spec.Units == nil {
		child.Spec.Units = parent.Spec.Units
	}
	if child.Spec.Boot == nil {
		child.Spec.Boot = parent.Spec.Boot
	}
	return child
}

func mergeMaps[V any](parent, child map[string]V) map[string]V {
	all := map[string]V{}
	maps.Copy(all, parent)
	maps.Copy(all, child)
	return all
}
