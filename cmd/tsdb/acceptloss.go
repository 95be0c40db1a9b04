package main

// acceptTableLossFlag is the flag that accepts the loss of tables or of parts of them.
const acceptTableLossFlag = "storage.accept-table-loss"

// acceptAll is the value of acceptTableLossFlag that accepts every loss of tables.
const acceptAll = "all"

// normalArgs gives acceptTableLossFlag its default value where it stands alone: kingpin knows no flags with an optional value.
func normalArgs(args []string) []string {
	normal := make([]string, 0, len(args))
	for _, arg := range args {
		if arg == "--"+acceptTableLossFlag {
			arg += "=" + acceptAll
		}
		normal = append(normal, arg)
	}
	return normal
}
