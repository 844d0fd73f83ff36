package schedule

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-project/berth/api/v1alpha1"
)

// decodeArgs decodes what kube-scheduler passes to a plugin that it does not know: the raw JSON of pluginConfig, or
// nothing.
func decodeArgs(args runtime.Object) (v1alpha1.SchedulerArgs, error) {
	var raw []byte
	switch a := args.(type) {
	case nil:
	case *runtime.Unknown:
		if a != nil {
			raw = a.Raw
		}
	default:
		text, err := json.Marshal(a)
		if err != nil {
			return v1alpha1.SchedulerArgs{}, fmt.Errorf("write %T as JSON: %w", args, err)
		}
		raw = text
	}
	decoded, problems := v1alpha1.DecodeSchedulerArgs(raw)
	return decoded, problems.Err()
}
