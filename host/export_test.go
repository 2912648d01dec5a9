package host

// Interpreted gives options of a host whose workflow code is another build's.
func Interpreted(o Options, interpreter any) Options {
	o.interpreter = interpreter
	return o
}
