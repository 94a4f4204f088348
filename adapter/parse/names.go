package parse

// toolFormats lists the formats that are read here.
func toolFormats() []toolFormat {
	return []toolFormat{
		hermesFormat(), qwen25Format(), qwen3CoderFormat(), glm45Format(), glm47Format(), kimiK2Format(), deepseekV3Format(), deepseekV31Format(), dsmlFormat("deepseekv32", "function_calls"), dsmlFormat("deepseekv4", "tool_calls"), minimaxM2Format(), mistralFormat(), llama3Format(), gptOSSFormat(), mimoFormat(), step3Format(), pythonicFormat(),
	}
}
