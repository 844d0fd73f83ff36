// Package prometheus asks a running Prometheus which queries have samples.
package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// Query is an expression of a dashboard or of an alert rule, without the comparison of an alert.
type Query struct {
	From string `json:"from"`
	Data string `json:"data"`
}

// Server is a Prometheus at an address.
type Server struct{ Address string }

// Unanswered returns the queries without a sample, and a text about them.
func (s Server) Unanswered(ctx context.Context, all []Query) (left []Query, said string) {
	for _, q := range all {
		n, err := s.Samples(ctx, q.Data)
		if n > 0 && err == nil {
			continue
		}
		left = append(left, q)
		said += fmt.Sprintf("no sample: %s: %s\n", q.From, q.Data)
		if err != nil {
			said += fmt.Sprintf("%v\n", err)
		}
	}
	return left, said
}

// Samples returns how many samples an expression has now.
func (s Server) Samples(ctx context.Context, expr string) (int, error) {
	var answer struct {
		Error string
		Data  struct{ Result []json.RawMessage }
	}
	err := s.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &answer)
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	return len(answer.Data.Result), err
}

// Troubles returns the errors of the last scrapes.
func (s Server) Troubles(ctx context.Context) (all string) {
	var answer struct {
		Data struct {
			ActiveTargets []struct{ ScrapeURL, LastError string }
		}
	}
	if err := s.get(ctx, "/api/v1/targets", &answer); err != nil {
		return err.Error()
	}
	for _, target := range answer.Data.ActiveTargets {
		if target.LastError != "" {
			all += fmt.Sprintf("%s: %s\n", target.ScrapeURL, target.LastError)
		}
	}
	return all
}

func (s Server) get(ctx context.Context, path string, to any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Address+path, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(to); err != nil {
		return fmt.Errorf("%s of Prometheus, status %s: %w", path, answer.Status, err)
	}
	return nil
}
