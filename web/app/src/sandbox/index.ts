export { mayHaveScripts } from './document.ts'
export { HtmlView, sandboxSentence } from './HtmlView.tsx'
