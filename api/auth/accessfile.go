package auth

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/grafana/regexp"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"halite/keyschema"
	"halite/storage/principal"
)

// nameBytesMax bounds the names of tokens and users.
const nameBytesMax = 128

// access is the parsed content of an access file.
type access struct {
	tokens map[[sha256.Size]byte]*principal.Principal
	users  map[string]*principal.Principal // rights of users and of client certificates
}

// accessDocument is the form of the file.
type accessDocument struct {
	Tokens []tokenEntry `yaml:"tokens,omitempty"`
	Users  []userEntry  `yaml:"users,omitempty"`
}

// tokenEntry is a token. Two entries may have the same name, to exchange a token.
type tokenEntry struct {
	SHA256 string `yaml:"sha256"`
	rights `yaml:",inline"`
}

type userEntry struct {
	rights `yaml:",inline"`
}

// rights are the common fields of both kinds of entry.
type rights struct {
	Name   string   `yaml:"name"`
	Scopes []string `yaml:"scopes,flow"`
	Match  string   `yaml:"match,omitempty"`
	// Tenant is the only tenant of the entry. Tenants lists several; a request names some of them.
	Tenant  string   `yaml:"tenant,omitempty"`
	Tenants []string `yaml:"tenants,omitempty,flow"`
}

// parseAccess parses an access file of a server with or without tenants. The error lists all faults with line and field. It
// never contains a secret.
func parseAccess(content []byte, tenants bool) (*access, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	var doc accessDocument
	if err := decoder.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, withoutValues(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has more than one YAML document")
	}
	var root yaml.Node
	if err := yaml.Unmarshal(content, &root); err != nil {
		return nil, withoutValues(err)
	}
	if err := checkEntries(&root); err != nil {
		return nil, err
	}
	a := &access{tokens: map[[sha256.Size]byte]*principal.Principal{}, users: map[string]*principal.Principal{}}
	var faults []error
	for i := range doc.Tokens {
		at := entryAt{root: &root, list: "tokens", index: i, tenants: tenants}
		faults = append(faults, a.addToken(at, &doc.Tokens[i]))
	}
	for i := range doc.Users {
		at := entryAt{root: &root, list: "users", index: i, tenants: tenants}
		faults = append(faults, a.addUser(at, &doc.Users[i]))
	}
	return a, errors.Join(faults...)
}

// checkEntries refuses empty entries. The decoder would skip them, and errors would name the lines of other entries.
func checkEntries(root *yaml.Node) error {
	var faults []error
	for _, list := range []string{"tokens", "users"} {
		if len(root.Content) == 0 {
			break
		}
		entries := valueOf(root.Content[0], list)
		if entries == nil {
			continue
		}
		for i, entry := range entries.Content {
			if resolved(entry).Tag == "!!null" {
				faults = append(faults, fmt.Errorf("line %d: %s[%d]: the entry is empty", entry.Line, list, i))
			}
		}
	}
	return errors.Join(faults...)
}

func (a *access) addToken(at entryAt, t *tokenEntry) error {
	p, err := t.principal(at)
	if err != nil {
		return err
	}
	var hash [sha256.Size]byte
	if n, err := hex.Decode(hash[:], []byte(t.SHA256[:min(len(t.SHA256), 2*len(hash))])); err != nil || n != len(hash) ||
		len(t.SHA256) != 2*len(hash) {
		return at.fault("sha256", errors.New(`must be the 64 hexadecimal digits that "tsdb token create" prints`))
	}
	if a.tokens[hash] != nil {
		return at.fault("sha256", errors.New("another token has the same hash"))
	}
	a.tokens[hash] = p
	return nil
}

func (a *access) addUser(at entryAt, u *userEntry) error {
	p, err := u.principal(at)
	if err != nil {
		return err
	}
	if a.users[p.Name] != nil {
		return at.fault("name", fmt.Errorf("user %q is listed twice", p.Name))
	}
	a.users[p.Name] = p
	return nil
}

// principal checks the rights of an entry.
func (r *rights) principal(at entryAt) (*principal.Principal, error) {
	if err := checkName(r.Name); err != nil {
		return nil, at.fault("name", err)
	}
	scopes, err := principal.ParseScopes(r.Scopes)
	if err != nil {
		return nil, at.fault("scopes", err)
	}
	p := &principal.Principal{Name: r.Name, Scopes: scopes}
	if p.Tenants, err = r.tenants(at); err != nil {
		return nil, err
	}
	if r.Match == "" {
		return p, nil
	}
	if scopes.Has(principal.Write) {
		return nil, at.fault("match", errors.New("restricts reads, not writes; leave out the scope write"))
	}
	if p.Match, err = parser.NewParser(parser.Options{}).ParseMetricSelector(r.Match); err != nil {
		return nil, at.fault("match", fmt.Errorf(`must be a selector such as {team="a"}: %w`, err))
	}
	if len(p.Match) == 0 {
		return nil, at.fault("match", errors.New(`has no matcher; it must be a selector such as {team="a"}`))
	}
	return p, nil
}

// tenants returns the tenants for which an entry acts.
func (r *rights) tenants(at entryAt) ([]string, error) {
	field, names := "tenants", r.Tenants
	if r.Tenant != "" {
		field, names = "tenant", []string{r.Tenant}
	}
	switch {
	case r.Tenant != "" && len(r.Tenants) > 0:
		return nil, at.fault("tenants", errors.New("cannot be combined with tenant; set one of the two"))
	case len(names) > 0 && !at.tenants:
		return nil, at.fault(field, errors.New("needs a server with --tenants"))
	}
	for i, name := range names {
		if err := keyschema.CheckTenant(name); err != nil {
			return nil, at.fault(field, err)
		}
		if slices.Contains(names[:i], name) {
			return nil, at.fault(field, fmt.Errorf("tenant %q is listed twice", name))
		}
	}
	return names, nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("is missing")
	case len(name) > nameBytesMax:
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(name), nameBytesMax)
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%q must have printable characters only", name)
	}
	return nil
}

// entryAt is the place of an entry in the file.
type entryAt struct {
	root  *yaml.Node
	list  string
	index int
	// tenants is set if the server has tenants.
	tenants bool
}

// fault is an error of a field of the entry, with its line, or the line of the entry if the field is missing. Without a file it
// has no line.
func (at entryAt) fault(field string, err error) error {
	if at.root == nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	line := 0
	if len(at.root.Content) > 0 {
		if list := valueOf(at.root.Content[0], at.list); list != nil && at.index < len(list.Content) {
			entry := resolved(list.Content[at.index])
			line = entry.Line
			if v := valueOf(entry, field); v != nil {
				line = v.Line
			}
		}
	}
	return fmt.Errorf("line %d: %s[%d].%s: %w", line, at.list, at.index, field, err)
}

// valueOf returns the value of a key in a mapping; nil if the key is missing.
func valueOf(mapping *yaml.Node, key string) *yaml.Node {
	mapping = resolved(mapping)
	if mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return resolved(mapping.Content[i+1])
		}
	}
	return nil
}

// resolved returns the node to which an alias refers, or the node itself.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// withoutValues returns an error of a YAML parser without Go's types and without quoted values, which may be secrets.
func withoutValues(err error) error {
	text := regexp.MustCompile("`[^`]*`? ").ReplaceAllString(err.Error(), "")
	text = regexp.MustCompile(`(in|into) (type )?\S*(auth|web|config)\.\S+`).ReplaceAllString(text, "here")
	text = strings.Join(strings.Fields(strings.TrimPrefix(text, "yaml: ")), " ")
	return errors.New(strings.TrimPrefix(text, "unmarshal errors: "))
}
