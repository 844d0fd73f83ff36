package docs

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/agent"
	"github.com/berth-project/berth/internal/agent/metrics"
	"github.com/berth-project/berth/internal/cli"
)

// TestReferencesAreGenerated compares the reference pages and the pictures with the program's output.
func TestReferencesAreGenerated(t *testing.T) {
	all := map[string]string{
		"docs/commands.md":   commandsPage(t),
		"docs/agent-file.md": agentFilePage(t),
		"docs/keys.md":       keysPage(t),
		"docs/metrics.md":    metricsPage(),
	}
	maps.Copy(all, pictures(t))
	for name, made := range all {
		if *update {
			if err := os.WriteFile(root+"/"+name, []byte(made), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.ReadFile(root + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(file), made); diff != "" {
			t.Errorf("%s (-update writes it; -file +generated):\n%s", name, diff)
		}
	}
}

const generated = "<!-- Generated: go test ./test/docs -run References -update -->\n"

// commandsPage returns the help of every command.
func commandsPage(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Commands\n\n" + generated + `
Exit codes of every command: 0 done; 1 failed; 2 bad usage or bad input; 3 not supported by this kernel or node. 4 says that the host differs from what was applied, or that a live agent holds it.
Every command that prints takes ` + "`-o table|json|yaml`" + `; the JSON is a stable contract.
`)
	addCommand(t, &b, program("berth"))
	b.WriteString("\n## As the plugin of kubectl\n" + `
A copy of the program, or a link to it, that is called ` + "`kubectl-berth`" + ` is a plugin of kubectl. The commands below then ask the cluster.
All other commands are the same as above, with ` + "`kubectl berth`" + ` in place of ` + "`berth`" + `. The help of the plugin does not list the commands of a host, but they work.
`)
	own := ownCommands()
	if len(own) == 0 {
		t.Error("the plugin of kubectl has no commands of its own")
	}
	for _, name := range own {
		addCommand(t, &b, program("kubectl-berth"), name)
	}
	return b.String()
}

// program returns the program of this name, with the version of tests.
func program(name string) cli.Program { return cli.Program{Name: name, Version: "test"} }

// ownCommands returns the names of the commands that are different in the plugin of kubectl. The plugin has another
// short text for each.
func ownCommands() []string {
	short := map[string]string{}
	for _, cmd := range cli.Command(program("berth")).Commands() {
		short[cmd.Name()] = cmd.Short
	}
	var names []string
	for _, cmd := range cli.Command(program("kubectl-berth")).Commands() {
		if cmd.IsAvailableCommand() && cmd.Short != short[cmd.Name()] {
			names = append(names, cmd.Name())
		}
	}
	return names
}

// addCommand writes the help of one command of a program and of its subcommands.
func addCommand(t *testing.T, b *strings.Builder, p cli.Program, words ...string) {
	t.Helper()
	typed := strings.Join(append([]string{cli.Command(p).CommandPath()}, words...), " ")
	text := helpOf(t, p, words...)
	if text == "" {
		t.Fatalf("no help of %s", typed)
	}
	// The page lists the global flags only once, with the program itself.
	if own, _, found := strings.Cut(text, "\nGlobal Flags:\n"); found {
		text = own
	}
	b.WriteString("\n## " + typed + "\n\n```text\n" + strings.TrimRight(text, "\n") + "\n```\n")
	for _, name := range subcommands(text) {
		if name == "help" || len(words) > 0 && words[0] == "completion" {
			continue
		}
		addCommand(t, b, p, append(slices.Clip(words), name)...)
	}
}

// subcommands returns the names below "Available Commands:".
func subcommands(help string) []string {
	_, list, _ := strings.Cut(help, "Available Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var names []string
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); len(fields) > 0 {
			names = append(names, fields[0])
		}
	}
	return names
}

// agentFilePage returns the file that the agent prints.
func agentFilePage(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	if code := cli.Run(t.Context(), []string{"agent", "--print-config"}, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, "test"); code != 0 {
		t.Fatal(out.String())
	}
	return "# The agent's file\n\n" + generated + "\nThe default place is `/etc/berth/agent.yaml`. `berth agent --print-config` prints this page's file with all defaults." +
		" An unknown field is an error, and so is a value out of its range: the message names file, field, value and what is allowed.\n\n```yaml\n" + out.String() + "```\n"
}

// metricsPage lists the metrics of the agent and its capabilities.
func metricsPage() string {
	var b strings.Builder
	b.WriteString("# Metrics\n\n" + generated + `
The agent serves these at ` + "`/metrics`" + ` of its ` + "`listen`" + ` address, beside those of its process (` + "`process_*`, `go_*`" + `). Any number of readers see the same.
Of a workload the labels ` + "`namespace`, `pod` and `container`" + ` name it; a pod as a whole has no ` + "`container`" + `. On a host without Kubernetes ` + "`workload`" + ` has its name, and the other three are empty. No label names a control group.
The scheduler has metrics of its own: [scheduling](scheduling.md#metrics). Dashboards and alert rules: [monitoring](monitoring.md).
`)
	section := func(title string, families []metrics.Family) {
		b.WriteString("\n## " + title + "\n\n" + row("Metric", "Kind", "Labels", "Meaning") + "|---|---|---|---|\n")
		for _, f := range families {
			kind := "gauge"
			switch {
			case f.Counter:
				kind = "counter"
			case f.Buckets != nil:
				kind = "histogram"
			}
			labels := "-"
			if len(f.Labels) > 0 {
				labels = "`" + strings.Join(f.Labels, "`, `") + "`"
			}
			b.WriteString(row("`berth_"+f.Name+"`", kind, labels, f.Help))
		}
	}
	section("The agent's own work", metrics.Families())
	for _, info := range agent.Capabilities() {
		var families []metrics.Family
		for _, m := range info.Metrics {
			families = append(families, metrics.Family{Metric: m})
		}
		section(info.Name, families)
	}
	return b.String()
}
