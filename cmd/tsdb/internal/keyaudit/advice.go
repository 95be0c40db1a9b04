package keyaudit

import "fmt"

// advise returns what to do about a finding, and the text for the configuration file.
func advise(f *finding) (advice, rule string) {
	drop := fmt.Sprintf("relabel_configs:\n  - {regex: %s, action: labeldrop}\n", yamlText(f.Label))
	hash := fmt.Sprintf("relabel_configs:\n  - {source_labels: [%[1]s], modulus: 1024, target_label: %[1]s, action: hashmod}\n",
		yamlText(f.Label))
	switch {
	case f.Label == "__name__":
		return "Put the value into a label or leave it out. A metric for each value fills the list of metrics.",
			"relabel_configs:\n  - {source_labels: [__name__], regex: PATTERN, target_label: __name__, replacement: NAME}\n"
	case f.Kind == kindToken || f.Kind == kindURL || f.Kind == kindCard:
		return "Drop the label, revoke what it shows, and delete the stored series. Row keys are in backups and logs too.", drop
	case f.Personal:
		return "Drop the label, or keep 1,024 groups of its values. Then delete the stored series with `tsdb delete --match`.", hash
	case f.Promoted != "":
		return fmt.Sprintf("The rule %q promotes the label, so new rows are neighbours and one tablet takes all writes. Promote "+
				"another label, or spread the rows with salts. `tsdb keyviz compare` shows the effect.", f.Promoted),
			fmt.Sprintf("schema_rules:\n  - {pattern: %q, salts: 16, basis: tags}\n", f.Promoted)
	case f.Kind == kindTime:
		return "Drop the label. A sample has a time already, and each new value makes a new series.", drop
	}
	return "Drop the label unless queries need it. Each new value makes a new series.", drop
}

// yamlText quotes a label name that YAML would not read as text.
func yamlText(name string) string {
	for _, r := range name {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return fmt.Sprintf("%q", name)
		}
	}
	return name
}
