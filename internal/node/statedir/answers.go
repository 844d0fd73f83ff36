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

	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/nri"
)

// answersFile has the answers to the container runtime, as a line of JSON for each. The last answer for a container is
// valid. Without the file a starting agent assumes that CPUs of containers that the journal does not have belong to
// another owner.
const answersFile = "answers"

// mostAppended is how many lines are appended before the file is rewritten.
const mostAppended = 4096

// answered is one line of the file.
type answered struct {
	BootID    string `json:"bootID"`
	Container string `json:"container"`
	inventory.Answered
}

// Answers is the file of answers to the container runtime. The caller serializes its methods.
type Answers struct {
	dir, bootID string
	// appended counts the lines since the file was rewritten.
	appended int
}

// NewAnswers returns the file of stateDir, which need not exist yet, for answers of this boot.
func NewAnswers(stateDir, bootID string) *Answers { return &Answers{dir: stateDir, bootID: bootID} }

func (a *Answers) path() string { return filepath.Join(a.dir, answersFile) }

// Recall returns the answers of an earlier agent of this boot, by container, and errors for unreadable parts.
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

// Save writes an answer before the runtime gets it. current returns the answers that are valid afterwards, of some
// containers or of all.
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
		a.appended = mostAppended // The last line may be incomplete: the next answer rewrites the file.
	}
	return err
}

func (a *Answers) add(lines []byte) error {
	file, err := os.OpenFile(a.path(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("append to %s: %w", answersFile, err)
	}
	_, err = file.Write(lines)
	return errors.Join(err, file.Close())
}

// replace rewrites the file.
func (a *Answers) replace(lines []byte) error { return Replace(a.dir, answersFile, lines) }
