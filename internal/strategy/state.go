package strategy

import "github.com/berth-project/berth/api/v1alpha1"

// Restores says that everything is to be put back, and nothing written.
func (s *Strategies) Restores() bool { return s.restores.value }

// restores reads KeyState. Without the ConfigMap the last value stays: an uninstall deletes it
// before the agents, which would take up their work for these seconds.
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
