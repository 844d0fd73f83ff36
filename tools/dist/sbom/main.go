// Command sbom writes the bill of materials of a Go program, in the JSON of CycloneDX:
//
//	sbom OUT NAME VERSION SECONDS FILE
//
// Its content is what the linker recorded in the program: the modules with versions and sums, the Go release and the
// platform. The document's date is SECONDS since 1970 and its serial number is derived from the program's SHA-256, so
// that the same program always gives the same document.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// errUsage reports arguments that do not match the usage above.
var errUsage = errors.New("want OUT NAME VERSION SECONDS FILE")

// errSum reports a module without an h1 sum, the only kind of sum in Go.
var errSum = errors.New("no h1 sum")

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	const count = 5
	if len(args) != count {
		return errUsage
	}
	seconds, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return fmt.Errorf("SECONDS: %w", err)
	}
	bill, err := describe(args[4], args[1], args[2], time.Unix(seconds, 0))
	if err != nil {
		return err
	}
	out, err := os.Create(args[0])
	if err != nil {
		return fmt.Errorf("write bill of materials: %w", err)
	}
	if err := cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bill, cdx.SpecVersion1_6); err != nil {
		return errors.Join(fmt.Errorf("write bill of materials: %w", err), out.Close())
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("write bill of materials: %w", err)
	}
	return nil
}

// describe returns the bill of materials of the program in a file.
func describe(file, name, version string, date time.Time) (*cdx.BOM, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read what the linker recorded: %w", err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read program: %w", err)
	}
	sum := sha256.Sum256(content)
	program := component(info.Main.Path, version)
	program.Type, program.Name = cdx.ComponentTypeApplication, name
	program.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	var platform []cdx.Property
	for _, setting := range info.Settings {
		if strings.HasPrefix(setting.Key, "GO") || strings.HasPrefix(setting.Key, "CGO_") || setting.Key == "-tags" {
			platform = append(platform, cdx.Property{Name: "go:" + setting.Key, Value: setting.Value})
		}
	}
	program.Properties = &platform
	parts := []cdx.Component{component("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		part, err := dependency(module)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	needs := make([]string, 0, len(parts))
	for _, part := range parts {
		needs = append(needs, part.BOMRef)
	}
	bill := cdx.NewBOM()
	bill.SerialNumber = uuid.NewSHA1(uuid.NameSpaceOID, sum[:]).URN()
	bill.Metadata = &cdx.Metadata{Timestamp: date.UTC().Format(time.RFC3339), Component: &program}
	bill.Components = &parts
	bill.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &needs}}
	return bill, nil
}

// dependency returns the component of a module, or of the module that replaces it. A module that is replaced by a
// directory of the tree has no sum, and the linker's version for the directory has no meaning.
func dependency(module *debug.Module) (cdx.Component, error) {
	if module.Replace != nil && module.Replace.Sum != "" {
		module = module.Replace
	}
	part := component(module.Path, module.Version)
	if module.Replace != nil {
		return part, nil
	}
	encoded, ok := strings.CutPrefix(module.Sum, "h1:")
	sum, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return part, fmt.Errorf("module %s: sum %q: %w", module.Path, module.Sum, errors.Join(errSum, err))
	}
	part.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	return part, nil
}

// component returns a Go module, identified by its package URL.
func component(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cdx.Component{
		BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version,
		Scope: cdx.ScopeRequired, PackageURL: url,
	}
}
