package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/alecthomas/kingpin/v2"
)

// responseBytesMax bounds the response of a server that a command reads.
const responseBytesMax = 64 << 20

// textBytesMax bounds the text of a response without JSON that an error shows.
const textBytesMax = 500

// tokenBytesMax bounds the file of a bearer token.
const tokenBytesMax = 64 << 10

// Server is the server that a command calls.
type Server struct {
	// URL is the base of its API; it may hold a user and a password.
	URL string
	// TokenFile holds a bearer token; "" sends none.
	TokenFile string
}

// AddFlags declares the flags of a server. If defaultURL is empty, the URL has no default.
func (s *Server) AddFlags(cmd *kingpin.CmdClause, help, defaultURL string) {
	url := cmd.Flag("url", help+" It may hold user and password: https://USER:PASSWORD@HOST.")
	if defaultURL != "" {
		url = url.Default(defaultURL)
	}
	url.StringVar(&s.URL)
	cmd.Flag("bearer-token-file", "File with the token to log in with.").StringVar(&s.TokenFile)
}

// DefaultURL is the address of a server on this machine.
const DefaultURL = "http://127.0.0.1:9480"

// String is the URL without the password.
func (s *Server) String() string { return withoutPassword(s.URL) }

func withoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the URL" // the text may hold the password anywhere
	}
	return strings.TrimSuffix(u.Redacted(), "/")
}

// token reads the bearer token; "" if there is none.
func (s *Server) token() (string, error) {
	if s.TokenFile == "" {
		return "", nil
	}
	file, err := os.Open(s.TokenFile)
	if err != nil {
		return "", fmt.Errorf("--bearer-token-file: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, tokenBytesMax))
	if err != nil {
		return "", fmt.Errorf("--bearer-token-file: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" {
		return "", fmt.Errorf("--bearer-token-file: %s is empty", s.TokenFile)
	}
	return token, nil
}

// Refusal is an error that a server returned.
type Refusal struct{ Status, Text string }

func (e *Refusal) Error() string { return e.Text }

// Request returns a request for a path of the server, with the token.
func (s *Server) Request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	// The path would become a part of a query or a fragment.
	if base, err := url.Parse(s.URL); err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" ||
		strings.ContainsAny(s.URL, "?#") {
		return nil, fmt.Errorf("--url: %s is not a URL such as %s", withoutPassword(s.URL), DefaultURL)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(s.URL, "/")+path, body)
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	token, err := s.token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, nil
}

// Call sends a form to a path of the server and decodes the data of its response into data. data may be nil if the response is
// empty. The error wraps a *Refusal if the server refuses the request, and a *RetryableError if the request may succeed later.
func (s *Server) Call(ctx context.Context, method, path string, form url.Values, data any) error {
	sent := form.Encode()
	if method == http.MethodGet {
		if sent != "" {
			path += "?" + sent
		}
		sent = ""
	}
	req, err := s.Request(ctx, method, path, strings.NewReader(sent))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent && data == nil {
		return nil
	}
	response := struct {
		Status, Error string
		Data          any
	}{Data: data}
	body := bufio.NewReader(io.LimitReader(resp.Body, responseBytesMax))
	start, _ := body.Peek(textBytesMax) // an error comes again
	text := string(bytes.TrimSpace(start))
	err = json.NewDecoder(body).Decode(&response)
	switch {
	case err == nil && response.Status == "success":
		return nil
	case err == nil && response.Error != "":
		return ErrorOf(resp, &Refusal{resp.Status, response.Error})
	case err == nil || resp.StatusCode != http.StatusOK: // a server that starts, a proxy, or another program
		err = errors.New(text)
	default:
		err = fmt.Errorf("without JSON: %w", err)
	}
	return ErrorOf(resp, fmt.Errorf("%s answered %s: %w", withoutPassword(req.URL.String()), resp.Status, err))
}

// CallAdmin is Call for endpoints of administration. The error of a refusal names the endpoint and the status.
func (s *Server) CallAdmin(ctx context.Context, method, path string, form url.Values, data any) error {
	err := s.Call(ctx, method, path, form, data)
	if refused := new(Refusal); errors.As(err, &refused) {
		return fmt.Errorf("%s%s answered %s: %w", s, path, refused.Status, err)
	}
	return err
}
