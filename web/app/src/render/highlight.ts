import type { HLJSApi, LanguageFn } from 'highlight.js'
import core from 'highlight.js/lib/core'

/** Longer text is not highlighted, because that would block the tab for seconds. */
export const HIGHLIGHTED_BYTES_MAX = 512 * 1024

const grammars: Record<string, () => Promise<{ default: LanguageFn }>> = {
  bash: () => import('highlight.js/lib/languages/bash'),
  c: () => import('highlight.js/lib/languages/c'),
  cpp: () => import('highlight.js/lib/languages/cpp'),
  css: () => import('highlight.js/lib/languages/css'),
  diff: () => import('highlight.js/lib/languages/diff'),
  go: () => import('highlight.js/lib/languages/go'),
  ini: () => import('highlight.js/lib/languages/ini'),
  java: () => import('highlight.js/lib/languages/java'),
  javascript: () => import('highlight.js/lib/languages/javascript'),
  json: () => import('highlight.js/lib/languages/json'),
  python: () => import('highlight.js/lib/languages/python'),
  ruby: () => import('highlight.js/lib/languages/ruby'),
  rust: () => import('highlight.js/lib/languages/rust'),
  sql: () => import('highlight.js/lib/languages/sql'),
  typescript: () => import('highlight.js/lib/languages/typescript'),
  xml: () => import('highlight.js/lib/languages/xml'),
  yaml: () => import('highlight.js/lib/languages/yaml'),
}

const ALIASES: Record<string, string> = {
  html: 'xml',
  js: 'javascript',
  jsx: 'javascript',
  md: 'markdown',
  py: 'python',
  rs: 'rust',
  sh: 'bash',
  shell: 'bash',
  svg: 'xml',
  toml: 'ini',
  ts: 'typescript',
  tsx: 'typescript',
  yml: 'yaml',
}

/** The source as markup with coloured spans; `null` for an unknown language. */
export async function highlightCode(source: string, language: string): Promise<string | null> {
  const name = ALIASES[language] ?? language
  const grammar = Object.hasOwn(grammars, name) ? grammars[name] : undefined
  if (grammar === undefined) return null
  const highlighter: HLJSApi = core
  if (highlighter.getLanguage(name) === undefined) {
    highlighter.registerLanguage(name, (await grammar()).default)
  }
  return highlighter.highlight(source, { language: name, ignoreIllegals: true }).value
}
