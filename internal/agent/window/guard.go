package window

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Guard refuses requests that another site can make a browser send. It refuses a Host that is no name of this host
// (421: a name that was rebound to this address), a method other than GET and HEAD (405), and another origin (403).
// Each answer forbids its use in other pages, and loads and runs nothing; next may allow more for its own page.
func Guard(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy":      "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Referrer-Policy":              "no-referrer",
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
			"Cache-Control":                "no-store",
		} {
			w.Header().Set(name, value)
		}
		switch {
		case !isHere(r, hosts):
			http.Error(w, "this is no host of that name; web.hosts of the agent's file adds one", http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are allowed", http.StatusMethodNotAllowed)
		case isForeign(r):
			http.Error(w, "requests of other sites are refused", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isHere reports whether a request names this host: by a loopback name, the address that it was sent to, or one of
// hosts.
func isHere(r *http.Request, hosts []string) bool {
	name := nameOf(r.Host)
	if name == "" {
		return false
	}
	if name == "localhost" || slices.ContainsFunc(hosts, func(host string) bool { return strings.EqualFold(host, name) }) {
		return true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return ip.IsLoopback()
	}
	bound, err := netip.ParseAddrPort(local.String())
	return ip.IsLoopback() || err == nil && bound.Addr().Unmap() == ip.Unmap()
}

// nameOf returns a host without port and brackets, in lower case.
func nameOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// isForeign reports whether a browser sends a request for a page of another origin. Other programs send neither header.
func isForeign(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	from, err := url.Parse(origin)
	return err != nil || from.Host != r.Host
}
