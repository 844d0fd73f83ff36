package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/workload"
)

// Kind says what a Problem does to its workload.
type Kind string

// The kinds of a Problem; the values are reason constants that people see.
const (
	// Invalid means that the document does not count at all.
	Invalid Kind = "Invalid"
	// InvalidPolicy means that one capability is off for the workload.
	InvalidPolicy Kind = "InvalidPolicy"
	// Warning means that a value does less than was asked for.
	Warning Kind = "Warning"
)

// Problem is something a user should hear about a file or document.
type Problem struct {
	// Kind says what it does to the workload.
	Kind Kind
	// File is the file; with ":line" of the document where it has several.
	File string
	// Workload is the name in the document, empty where it has none.
	Workload string
	// Err holds the words and names File itself.
	Err error
}

// Pending is a valid workload that waits, with the reason.
type Pending struct {
	Workload workload.Workload
	// Reason is an ErrConflict that names the other files.
	Reason error
}

// Workloads is what a directory holds.
type Workloads struct {
	// Ready are the workloads that count, by name.
	Ready []workload.Workload
	// Pending are valid but wait, by name and file.
	Pending []Pending
	// Problems are by file.
	Problems []Problem
}

// Before is what counted until now: a slip of an editor unsettles none of it.
type Before struct {
	// Counted are workloads as they were read. What another document claims stays theirs, and
	// those of a file that cannot be read any more stay as they are.
	Counted []workload.Workload
	// Held are those of an earlier process, of which only name, file and groups are known. What
	// another document claims stays theirs, too.
	Held []workload.Workload
}

// LoadWorkloads reads every *.yaml and *.yml file of dir, which may hold
// several documents each. admin is the agent's part in the policies. The error is about the
// directory itself; nothing is known about the workloads then, and a caller should keep
// what it knew.
func LoadWorkloads(dir string, before Before, admin workload.Administrator) (Workloads, error) {
	names, err := workloadFiles(dir)
	if err != nil {
		return Workloads{}, err
	}
	l := loader{admin: admin}
	for _, name := range names {
		l.file(filepath.Join(dir, name))
	}
	l.keep(before.Counted)
	l.loaded.Ready, l.loaded.Pending = settle(l.valid, slices.Concat(before.Held, before.Counted))
	return l.loaded, nil
}

// workloadFiles returns the names that count, sorted.
func workloadFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("workloadDir: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() && counts(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// counts passes over what editors and the kubelet leave beside a file.
func counts(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") {
		return false
	}
	extension := filepath.Ext(name)
	return extension == ".yaml" || extension == ".yml"
}

type loader struct {
	admin  workload.Administrator
	valid  []workload.Workload
	loaded Workloads
}

func (l *loader) file(path string) {
	text, err := readText(path)
	if errors.Is(err, fs.ErrNotExist) {
		return // removed since the directory was read: the next look sees it
	}
	if err != nil {
		l.problem(Invalid, path, "", err)
		return
	}
	l.text(path, text)
}

func (l *loader) text(path string, text []byte) {
	documents := splitDocuments(text)
	for _, d := range documents {
		name := path
		if len(documents) > 1 {
			name = fmt.Sprintf("%s:%d", path, d.line)
		}
		l.document(name, d)
	}
}

func (l *loader) document(file string, d document) {
	data, err := d.toJSON()
	if err != nil {
		l.problem(Invalid, file, "", fmt.Errorf("%s: %w", file, err))
		return
	}
	doc, problems := v1alpha1.DecodeWorkload(data)
	if len(problems) > 0 {
		l.problem(Invalid, file, doc.Name, problems.InFile(file))
		return
	}
	resolved, findings := workload.Resolve(doc, file, l.admin)
	l.valid = append(l.valid, resolved)
	if err := findings.Refused.Err(); err != nil {
		l.problem(InvalidPolicy, file, doc.Name, err)
	}
	if err := findings.Warnings.Err(); err != nil {
		l.problem(Warning, file, doc.Name, err)
	}
}

// keep adds the workloads of before that are not there while a document of their file is damaged,
// which may be theirs, and says so.
func (l *loader) keep(before []workload.Workload) {
	for _, w := range before {
		at := slices.IndexFunc(l.loaded.Problems, func(p Problem) bool {
			return p.Kind == Invalid && sameFile(p.File, w.File) && (p.Workload == "" || p.Workload == w.Name)
		})
		if at < 0 || slices.ContainsFunc(l.valid, func(v workload.Workload) bool { return same(v, w) }) {
			continue
		}
		l.valid = append(l.valid, w)
		damaged := &l.loaded.Problems[at]
		damaged.Err = fmt.Errorf("%w; workload %s stays as it was", damaged.Err, w.Name)
	}
}

func (l *loader) problem(kind Kind, file, name string, err error) {
	l.loaded.Problems = append(l.loaded.Problems, Problem{Kind: kind, File: file, Workload: name, Err: err})
}
