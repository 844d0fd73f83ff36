package cluster

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	audit "k8s.io/apiserver/pkg/apis/audit/v1"
)

// auditPolicy records the author of each write, without its content, after the answer.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

// auditFlags returns flags that make an API server write an audit log, and the name of that file.
func auditFlags(t *testing.T) (flags []string, file string) {
	t.Helper()
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	must(t, os.WriteFile(policy, []byte(auditPolicy), 0o600))
	file = filepath.Join(dir, "audit.log")
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + file, "--audit-log-mode=blocking"}, file
}

// write is one write that the API server answered.
type write struct {
	verb, resource, name string // resource with its subresource, like pods/binding.
	code                 int32
}

// writes returns the writes of a user.
func writes(t *testing.T, file, user string) []write {
	t.Helper()
	log, err := os.Open(file)
	must(t, err)
	defer log.Close()
	var all []write
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event audit.Event
		must(t, json.Unmarshal(lines.Bytes(), &event))
		if event.User.Username != user || event.ObjectRef == nil || event.ResponseStatus == nil {
			continue
		}
		w := write{verb: event.Verb, resource: event.ObjectRef.Resource, name: event.ObjectRef.Name, code: event.ResponseStatus.Code}
		if event.ObjectRef.Subresource != "" {
			w.resource += "/" + event.ObjectRef.Subresource
		}
		all = append(all, w)
	}
	must(t, lines.Err())
	return all
}
