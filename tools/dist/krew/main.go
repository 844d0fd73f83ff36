// Command krew writes the manifest from which krew installs kubectl-berth:
//
//	krew RELEASE VERSION ARCHITECTURE=ARCHIVE...
//
// Each archive has the program as kubectl-berth next to LICENSE and THIRD_PARTY_NOTICES, and RELEASE publishes it under
// its file name. VERSION is the release's version in the form that krew accepts: v and a semantic version.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	home = "https://github.com/berth-project/berth"
	// plugin is the name of the program in an archive.
	plugin = "kubectl-berth"
)

// errUsage reports arguments that do not match the usage above.
var errUsage = errors.New("want RELEASE VERSION ARCHITECTURE=ARCHIVE, as often as there are archives")

// manifest is the part of krew.googlecontainertools.github.com/v1alpha2 that Berth uses.
type manifest struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       spec              `json:"spec"`
}

type spec struct {
	Version          string     `json:"version"`
	Homepage         string     `json:"homepage"`
	ShortDescription string     `json:"shortDescription"`
	Description      string     `json:"description"`
	Platforms        []platform `json:"platforms"`
}

type platform struct {
	Selector selector `json:"selector"`
	URI      string   `json:"uri"`
	SHA256   string   `json:"sha256"`
	Files    []files  `json:"files"`
	Bin      string   `json:"bin"`
}

type selector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type files struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	const fixed = 2
	if len(args) <= fixed {
		return errUsage
	}
	m := manifest{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": "berth"},
		Spec: spec{
			Version: args[1], Homepage: home,
			ShortDescription: "Show whose CPUs are whose, and why",
			Description: "Shows which CPUs the nodes have free and which pods have which, explains a placement,\n" +
				"and tries manifests on paper before they are applied. It uses your own rights.\n",
		},
	}
	for _, arg := range args[fixed:] {
		architecture, archive, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("argument %q: %w", arg, errUsage)
		}
		p, err := describe(architecture, archive, args[0])
		if err != nil {
			return err
		}
		m.Spec.Platforms = append(m.Spec.Platforms, p)
	}
	text, err := yaml.Marshal(m)
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	if _, err := out.Write(text); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}

func describe(architecture, archive, release string) (platform, error) {
	content, err := os.ReadFile(archive)
	if err != nil {
		return platform{}, fmt.Errorf("read archive: %w", err)
	}
	sum := sha256.Sum256(content)
	return platform{
		Selector: selector{MatchLabels: map[string]string{"os": "linux", "arch": architecture}},
		URI:      home + "/releases/download/" + release + "/" + filepath.Base(archive),
		SHA256:   hex.EncodeToString(sum[:]),
		Files:    []files{{From: plugin, To: "."}, {From: "LICENSE", To: "."}, {From: "THIRD_PARTY_NOTICES", To: "."}},
		Bin:      plugin,
	}, nil
}
