package web

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"slices"
)

// files are the pages, as a browser gets them: the page of a node, and the files that differ on the page of a cluster.
//
//go:embed page cluster
var files embed.FS

// policy restricts the page: it may run and show only its own files, and ask only the server that it came from. No
// string becomes markup or code.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Page returns the page of a node, without its data.
func Page() http.Handler { return nodePage() }

func nodePage() *http.ServeMux    { return page("page") }
func clusterPage() *http.ServeMux { return page("cluster", "page") }

// page serves the files of dirs, each from the first directory that has it.
func page(dirs ...string) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		name := path.Clean(r.URL.Path)
		i := slices.IndexFunc(dirs, func(dir string) bool {
			_, err := fs.Stat(files, path.Join(dir, name))
			return err == nil
		})
		http.ServeFileFS(w, r, files, path.Join(dirs[max(0, i)], name))
	})
	return mux
}
