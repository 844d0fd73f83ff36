// Program release writes the objects that Helm applies for the chart, in Helm's order, as files: install.yaml,
// uninstall.yaml without the objects that Helm keeps, and one pre-delete-NN.yaml for each uninstall hook. The cluster
// tests apply these files, because their module has the libraries of another Kubernetes version.
//
//	release CHART KUBERNETES NAMESPACE VALUES DIR
package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: release CHART KUBERNETES NAMESPACE VALUES DIR")

func run(args []string) error {
	if len(args) != 5 {
		return errUsage
	}
	templates, err := render(args[0], args[1], args[2], args[3])
	if err != nil {
		return err
	}
	hooks, install, err := releaseutil.SortManifests(maps.Clone(templates), nil, releaseutil.InstallOrder)
	if err != nil {
		return fmt.Errorf("sort: %w", err)
	}
	_, uninstall, err := releaseutil.SortManifests(templates, nil, releaseutil.UninstallOrder)
	if err != nil {
		return fmt.Errorf("sort: %w", err)
	}
	uninstall = slices.DeleteFunc(uninstall, func(m releaseutil.Manifest) bool {
		return m.Head.Metadata != nil && m.Head.Metadata.Annotations["helm.sh/resource-policy"] == "keep"
	})
	files := map[string]string{"install.yaml": joined(install), "uninstall.yaml": joined(uninstall)}
	hooks = slices.DeleteFunc(hooks, func(h *release.Hook) bool { return !slices.Contains(h.Events, release.HookPreDelete) })
	slices.SortStableFunc(hooks, func(a, b *release.Hook) int { return a.Weight - b.Weight }) // in Helm's order
	for i, h := range hooks {
		files[fmt.Sprintf("pre-delete-%02d.yaml", i)] = h.Manifest
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(args[4], name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}

// render returns the templates that produce objects, by name.
func render(dir, kubernetes, namespace, file string) (map[string]string, error) {
	c, err := loader.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", dir, err)
	}
	version, err := common.ParseKubeVersion(kubernetes)
	if err != nil {
		return nil, fmt.Errorf("version of Kubernetes %q: %w", kubernetes, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		return nil, fmt.Errorf("values %s: %w", file, err)
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: "berth", Namespace: namespace, IsInstall: true, Revision: 1}, capabilities)
	if err != nil {
		return nil, fmt.Errorf("values %s: %w", file, err)
	}
	templates, err := engine.Render(c, all)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", dir, err)
	}
	maps.DeleteFunc(templates, func(name, _ string) bool { return strings.HasSuffix(name, "NOTES.txt") })
	return templates, nil
}

// joined returns the documents as one file.
func joined(all []releaseutil.Manifest) string {
	var text strings.Builder
	for _, m := range all {
		text.WriteString("---\n" + m.Content + "\n")
	}
	return text.String()
}
