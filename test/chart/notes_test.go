package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
)

// TestNotes renders what Helm prints after an install, for each mode. Every command in it must exist and name what this
// release has. docs/install.md has the commands of the default values.
func TestNotes(t *testing.T) {
	const base = "kubectl get nodetopologies|kubectl berth status|kubectl berth web|kubectl berth top|kubectl patch|kubectl berth explain pod/NAME|"
	for _, c := range []struct {
		values, namespace, commands string
		says, silent                []string
	}{
		{"", "kube-system", base + "helm uninstall berth -n kube-system", []string{"the agents restore everything"}, []string{"There is no berth-scheduler", "The admission policies", "no agents", "kube-scheduler"}},
		{"scheduler: {mode: replace}", "berth-system", base + "helm uninstall berth -n berth-system", []string{"once kube-scheduler stops", "Start kube-scheduler first"}, []string{"There is no berth-scheduler"}},
		{"scheduler: {mode: off}", "kube-system", base + "helm uninstall berth -n kube-system", []string{"There is no berth-scheduler"}, []string{"kube-scheduler"}},
		{"agent: {enabled: false}", "kube-system", base + "helm uninstall berth -n kube-system", []string{"The release has no agents"}, []string{"restore"}},
		{"uninstall: {restore: false}", "kube-system", base + "helm uninstall berth -n kube-system|kubectl berth rollback", []string{"This restores nothing"}, []string{"the agents restore everything"}},
		{"policies: off", "kube-system", base + "helm uninstall berth -n kube-system", []string{"The admission policies are not installed"}, nil},
	} {
		t.Run(c.values, func(t *testing.T) {
			notes, commands := notesOf(t, c.namespace, c.values)
			var names []string
			for _, words := range commands {
				names = append(names, strings.Join(words, " "))
				if slices.Equal(words[:2], []string{"kubectl", "patch"}) {
					names[len(names)-1] = "kubectl patch"
				}
			}
			if got := strings.Join(names, "|"); got != c.commands {
				t.Errorf("the commands are %q, want %q", got, c.commands)
			}
			for _, words := range commands {
				exists(t, words, render(t, newest, c.namespace, c.values))
				if line := strings.Join(words, " "); c.values == "" && !strings.Contains(ofPage(t, "install.md"), "`"+line+"`") {
					t.Errorf("docs/install.md has no `%s`", line)
				}
			}
			for text, want := range both(c.says, c.silent) {
				if strings.Contains(notes, text) != want {
					t.Errorf("has %q: %t\n%s", text, !want, notes)
				}
			}
		})
	}
}

// both maps texts to whether they must be there.
func both(says, silent []string) map[string]bool {
	all := map[string]bool{}
	for _, text := range says {
		all[text] = true
	}
	for _, text := range silent {
		all[text] = false
	}
	return all
}

// notesOf returns the notes of a release, and the words of their commands, which are indented.
func notesOf(t *testing.T, namespace, values string) (notes string, commands [][]string) {
	t.Helper()
	files, err := try(t, newest, namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	notes = files["berth/templates/NOTES.txt"]
	if notes == "" || strings.Contains(notes, "\n\n\n") || strings.Contains(notes, "<no value>") {
		t.Errorf("notes %q", notes)
	}
	for line := range strings.Lines(notes) {
		if command, indented := strings.CutPrefix(line, "  "); indented {
			commands = append(commands, strings.Fields(command))
		}
	}
	return notes, commands
}

// exists checks that a command of the notes is one of Berth, or names objects of the release.
func exists(t *testing.T, words []string, all map[string]object) {
	t.Helper()
	switch line := strings.Join(words, " "); {
	case strings.HasPrefix(line, "kubectl berth "):
		isCommand(t, words[2])
	case strings.HasPrefix(line, "kubectl get "):
		if words[2] != all["CustomResourceDefinition /nodetopologies.berth.dev"].at("spec", "names", "plural") {
			t.Errorf("%s: the release defines no such kind", line)
		}
	case strings.HasPrefix(line, "kubectl patch deployment NAME -p "):
		optsIn(t, strings.Trim(words[5], "'"), all)
	case strings.HasPrefix(line, "helm uninstall berth -n "):
	default:
		t.Errorf("%s is no command that this test knows", line)
	}
}

// isCommand checks that the generated page of commands has a command of the plugin, or of both programs.
func isCommand(t *testing.T, name string) {
	t.Helper()
	if !regexp.MustCompile(fmt.Sprintf("(?m)^## (kubectl )?berth %s$", name)).MatchString(ofPage(t, "commands.md")) {
		t.Errorf("there is no command kubectl berth %s", name)
	}
}

func ofPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// optsIn checks that a patch asks for exclusive CPUs, and names a scheduler of the release if there is one.
func optsIn(t *testing.T, patch string, all map[string]object) {
	t.Helper()
	o := object{}
	if err := json.Unmarshal([]byte(patch), &o); err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	if got := o.at("spec", "template", "metadata", "annotations", v1alpha1.AnnotationCPUSetScheduler); got != "true" {
		t.Errorf("%s: the annotation %s is %v", patch, v1alpha1.AnnotationCPUSetScheduler, got)
	}
	file, _ := all["ConfigMap berth-system/berth-scheduler"].at("data", "config.yaml").(string)
	name, named := o.at("spec", "template", "spec", "schedulerName").(string)
	if named != (file != "") || named && !strings.Contains(file, "schedulerName: "+name+"\n") {
		t.Errorf("%s: the scheduler %q is none of\n%s", patch, name, file)
	}
}
