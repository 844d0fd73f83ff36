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
	"github.com/berth-project/berth/internal/intent/workload"
)

// Kind is the effect of a Problem on its workload.
type Kind string

// The kinds of a Problem; the values are reasons that users see.
const (
	// Invalid means that the document has no effect at all.
	Invalid Kind = "Invalid"
	// InvalidPolicy means that one capability is off for the workload.
	InvalidPolicy Kind = "InvalidPolicy"
	// Warning means that a value does less than requested.
	Warning Kind = "Warning"
)

// Problem is a message to the user about a file or document.
type Problem struct {
	// Kind is the effect on the workload.
	Kind Kind
	// File is the file; with ":line" of the document if the file has several.
	File string
	// Workload is the name in the document, empty if it has none.
	Workload string
	// Err is the message, which includes File.
	Err error
}

// Pending is a valid workload that waits, and the reason.
type Pending struct {
	Workload workload.Workload
	// Reason is an ErrConflict that names the other files.
	Reason error
}

// Workloads is the content of a directory.
type Workloads struct {
	// Ready are the workloads in effect, sorted by name.
	Ready []workload.Workload
	// Pending are valid workloads that wait, sorted by name and file.
	Pending []Pending
	// Problems are sorted by file.
	Problems []Problem
}

// Before is what was in effect until now: a mistake of an editor must not disturb it.
type Before struct {
	// Counted are workloads as they were read. They retain their claims if another document claims the same, and stay
	// unchanged while their file cannot be read.
	Counted []workload.Workload
	// Held are workloads of an earlier process, with only name, file and groups known. They retain their claims too.
	Held []workload.Workload
}

// LoadWorkloads reads every *.yaml and *.yml file of dir, each with one or more documents. admin is the agent's part in
// the policies. An error is about the directory itself; nothing is then known about the workloads, and the caller
// should retain its previous state.
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

// workloadFiles returns the sorted names of the workload files.
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

// counts reports whether a name is a workload file. It excludes files that editors and the kubelet leave.
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
		return // removed since the directory was read: the next check sees it
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
			name = fmt.Sprintf("%s:%d", path, d.Line)
		}
		l.document(name, d)
	}
}

func (l *loader) document(file string, d Document) {
	data, err := d.JSON()
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

// keep adds missing workloads of before if a document of their file is damaged, since that document may be theirs, and
// adds a note to its problem.
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
