// Program burn uses CPU time in a container with a limit.
//
//	burn            answers GET /work?us=N on port 8080 by burning N microseconds of CPU time
//	burn spin [N]   keeps N threads busy (default 1) until a signal ends it
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/berth-project/berth/internal/proof/load"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "burn:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return serve()
	}
	threads := 1
	if len(args) == 2 {
		var err error
		if threads, err = strconv.Atoi(args[1]); err != nil {
			return fmt.Errorf("threads: %w", err)
		}
	}
	if args[0] != "spin" || len(args) > 2 || threads < 1 {
		return fmt.Errorf("usage: burn | burn spin [N]; not %q", args)
	}
	for range threads {
		go spin()
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
	return nil
}

// spin returns only if reading the clock fails.
func spin() {
	for err := error(nil); err == nil; {
		err = load.Burn(time.Second)
	}
}

// serve answers like the request server of `berth bench burst`, to all clients in the cluster.
func serve() error {
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(work)}
	return server.ListenAndServe()
}

func work(w http.ResponseWriter, r *http.Request) {
	text := r.FormValue("us")
	if text == "" {
		text = "0"
	}
	us, err := strconv.ParseInt(text, 10, 64)
	cpu := time.Duration(us) * time.Microsecond
	if err != nil || cpu < 0 || cpu > load.MaxWork {
		http.Error(w, "us must be a number from 0 to "+strconv.FormatInt(load.MaxWork.Microseconds(), 10), http.StatusBadRequest)
		return
	}
	if err := load.Burn(cpu); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
