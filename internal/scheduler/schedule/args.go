package schedule

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-project/berth/api/v1alpha1"
)

// decodeArgs decodes what kube-scheduler passes to a plugin that it does not know: the raw JSON of pluginConfig, or
// nothing. If they name no strategy, it is the given one, or the default if that is empty too.
func decodeArgs(args runtime.Object, strategy v1alpha1.NUMAAllocateStrategy) (v1alpha1.SchedulerArgs, error) {
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
	if err := problems.Err(); err != nil {
		return decoded, err
	}
	if strategy != "" && !namesStrategy(raw) {
		decoded.NUMAAllocateStrategy = strategy
	}
	return decoded, nil
}

// namesStrategy reports whether valid args name a strategy.
func namesStrategy(raw []byte) bool {
	var named v1alpha1.SchedulerArgs // without defaults
	return json.Unmarshal(raw, &named) == nil && named.NUMAAllocateStrategy != ""
}
