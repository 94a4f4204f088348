package parse

// toolFormats lists the formats that are read here.
func toolFormats() []toolFormat {
	return []toolFormat{
		hermesFormat(), qwen25Format(), qwen3CoderFormat(),
	}
}
