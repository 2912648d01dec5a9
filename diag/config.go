package diag

// Codes of chimera.yaml and its environment.
const (
	// ConfigFile: the file cannot be read, or is no YAML.
	ConfigFile Code = "config/file"
	// ConfigKey: a key or a variable that does not exist.
	ConfigKey Code = "config/key"
	// ConfigValue: a value of the wrong type, or out of its bounds.
	ConfigValue Code = "config/value"
	// ConfigSecret: a reference to a secret that is malformed, or stands where none may.
	ConfigSecret Code = "config/secret"
	// ConfigUnstated: what a catalog says is not what the admins have stated, or its statements do
	// not verify.
	ConfigUnstated Code = "config/unstated"
	// ConfigNotSupported: a setting of other programs or of later versions.
	ConfigNotSupported Code = "config/not-supported"
)
