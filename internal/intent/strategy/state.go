package strategy

import "github.com/berth-project/berth/api/v1alpha1"

// Restores reports whether the agent restores everything and writes nothing else.
func (s *Strategies) Restores() bool { return s.restores.value }

// restores reads KeyState. Without the ConfigMap the last value stays: an uninstall deletes the ConfigMap before the
// agents, which would otherwise resume their work for those seconds.
func (r *reader) restores(maps Maps, last kept[bool]) kept[bool] {
	if _, exists := maps[BerthConfig]; !exists {
		return last
	}
	return read(r, maps, source[bool]{[]Name{BerthConfig}, KeyState, decodeState}, last)
}

func decodeState(text string) (restores bool, refused, _ v1alpha1.FieldErrors) {
	if text != StateRestore {
		refused = v1alpha1.FieldErrors{{Value: v1alpha1.Show(text), Allowed: StateRestore}}
	}
	return len(refused) == 0, refused, nil
}
