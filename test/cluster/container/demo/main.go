// Program demo answers every request on port 8080 with 1 KiB: a stand-in for the image go-demo
// of ACK's documentation.
package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	answer := bytes.Repeat([]byte("berth\n go-demo \n"), 64)
	server := &http.Server{
		Addr:              ":8080",
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write(answer) // A client that went away needs no answer.
		}),
	}
	if err := server.ListenAndServe(); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}
