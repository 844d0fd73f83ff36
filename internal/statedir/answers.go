package statedir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/nri"
)

// answersFile is what the container runtime was answered: a line of JSON for
// each answer, of two for one container the later counts. Without it
// an agent that starts takes the CPUs of containers that the journal does not have for
// another owner's.
const answersFile = "answers"

// mostAppended is how many lines are appended until the file is written anew.
const mostAppended = 4096

// answered is one line.
type answered struct {
	BootID    string `json:"bootID"`
	Container string `json:"container"`
	inventory.Answered
}

// Answers is the file of what the container runtime was answered. The caller serializes
// its methods.
type Answers struct {
	dir, bootID string
	// appended counts its lines since it was written anew.
	appended int
}

// NewAnswers returns the file of stateDir, which need not be there yet, for answers of this
// boot.
func NewAnswers(stateDir, bootID string) *Answers { return &Answers{dir: stateDir, bootID: bootID} }

func (a *Answers) path() string { return filepath.Join(a.dir, answersFile) }

// Recall returns what an earlier agent of this boot answered, by container, and what of
// it cannot be read.
func (a *Answers) Recall() (map[string]inventory.Answered, error) {
	data, problem := os.ReadFile(a.path())
	if errors.Is(problem, fs.ErrNotExist) {
		problem = nil
	}
	all := map[string]inventory.Answered{}
	for line := range bytes.Lines(data) {
		var one answered
		if err := json.Unmarshal(line, &one); err != nil {
			problem = errors.Join(problem, fmt.Errorf("read %s: %w", a.path(), err))
		} else if one.BootID == a.bootID {
			all[one.Container] = one.Answered
		}
	}
	return all, problem
}

// Save writes down what the runtime is about to be answered; current returns the answers
// that count after it, of some containers or of all.
func (a *Answers) Save(e nri.Event, r nri.Reply, current func(ids ...string) map[string]inventory.Answered) error {
	ids := make([]string, 0, 1+len(r.Updates))
	if r.Adjust != (nri.Settings{}) {
		ids = append(ids, e.Container.ID)
	}
	for _, u := range r.Updates {
		ids = append(ids, u.ContainerID)
	}
	if len(ids) == 0 && e.Kind != nri.Synchronize {
		return nil
	}
	write := a.add
	if e.Kind == nri.Synchronize || a.appended+len(ids) > mostAppended {
		ids, a.appended, write = nil, 0, a.replace
	}
	all := current(ids...)
	if ids == nil {
		ids = slices.Sorted(maps.Keys(all))
	}
	a.appended += len(ids)
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	var err error
	for _, id := range ids {
		err = errors.Join(err, encoder.Encode(answered{a.bootID, id, all[id]}))
	}
	if err = errors.Join(err, write(lines.Bytes())); err != nil {
		a.appended = mostAppended // The last line may be half there: the next answer writes the file anew.
	}
	return err
}

// add appends lines.
func (a *Answers) add(lines []byte) error {
	file, err := os.OpenFile(a.path(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("append to %s: %w", answersFile, err)
	}
	_, err = file.Write(lines)
	return errors.Join(err, file.Close())
}

// replace writes the file anew.
func (a *Answers) replace(lines []byte) error { return Replace(a.dir, answersFile, lines) }
