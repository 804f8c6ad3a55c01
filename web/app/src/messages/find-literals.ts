import { parseSync } from 'vite'

// For a test: finds texts for people that are not in the catalogue.

/** A text literal in the code. */
export interface Literal {
  readonly text: string
  readonly line: number
}

/** Attributes and properties whose text people see or hear. */
const SHOWN = new Set([
  'alt',
  'aria-description',
  'aria-label',
  'aria-placeholder',
  'aria-roledescription',
  'aria-valuetext',
  'label',
  'placeholder',
  'title',
  'textContent',
  'innerText',
])
/** Attributes for the browser alone. */
const UNSEEN = new Set(['allow', 'class', 'd', 'preserveAspectRatio', 'rel', 'sandbox', 'viewBox'])

const WORDS = /\p{L}{2,}[,:;]? +\p{L}{2,}/u
const LETTERS = /\p{L}{2,}/u

interface Node {
  readonly type: string
  readonly start: number
  readonly [key: string]: unknown
}

/** Any word counts where people look, two words in a row elsewhere. Arguments of calls are not checked as shown text. */
type Place = 'shown' | 'elsewhere'

/** The literals of a module that people may read. An error message in lower case is for developers. */
export function findLiterals(file: string, code: string): Literal[] {
  const found: Literal[] = []
  const look = (written: string, { start }: Node, place: Place) => {
    const isMarkup = written.includes('<')
    const text = isMarkup ? readIn(written) : written
    if (!(place === 'shown' || isMarkup ? LETTERS : WORDS).test(text)) return
    found.push({ text: text.trim().replace(/\s+/g, ' '), line: code.slice(0, start).split('\n').length })
  }
  const walk = (node: Node, place: Place): void => {
    switch (node.type) {
      case 'ImportDeclaration':
      case 'TSLiteralType':
        return
      case 'BinaryExpression':
        // A value in a comparison comes from elsewhere.
        if (node['operator'] === '+') walkInto(node, place)
        return
      case 'JSXText':
        look(String(node['value']), node, 'shown')
        return
      case 'Literal':
        if (typeof node['value'] === 'string') look(node['value'], node, place)
        return
      case 'TemplateLiteral':
        look(wholeTemplate(node), node, place)
        for (const each of nodesIn(node['expressions'])) walk(each, place)
        return
      case 'JSXAttribute': {
        const name = nameOf(node['name'])
        if (!UNSEEN.has(name)) walkInto(node, SHOWN.has(name) ? 'shown' : 'elsewhere')
        return
      }
      case 'JSXElement':
      case 'JSXFragment':
        for (const child of nodesIn(node['children'])) walk(child, 'shown')
        for (const other of nodesIn([node['openingElement']])) walk(other, 'elsewhere')
        return
      case 'AssignmentExpression': {
        const [left, right] = [...nodesIn([node['left']]), ...nodesIn([node['right']])]
        const name = left?.type === 'MemberExpression' ? nameOf(left['property']) : ''
        if (right !== undefined) walk(right, SHOWN.has(name) ? 'shown' : 'elsewhere')
        return
      }
      case 'NewExpression':
        if (/(?:Error|Exception)$/.test(nameOf(node['callee']))) {
          const [first, ...others] = nodesIn(node['arguments'])
          if (first !== undefined && !isForDevelopers(first)) walk(first, 'elsewhere')
          for (const other of others) walk(other, 'elsewhere')
          return
        }
        walkInto(node, 'elsewhere')
        return
      case 'CallExpression': {
        const [first, second] = nodesIn(node['arguments'])
        const sets = nameOf(propertyOf(node['callee'])) === 'setAttribute' && SHOWN.has(String(first?.['value']))
        if (sets && second !== undefined) walk(second, 'shown')
        else walkInto(node, 'elsewhere')
        return
      }
    }
    walkInto(node, /Function/.test(node.type) ? 'elsewhere' : place)
  }
  const walkInto = (node: Node, place: Place) => {
    for (const each of nodesIn(Object.values(node))) walk(each, place)
  }
  walk(parseSync(file, code).program as unknown as Node, 'elsewhere')
  return found
}

/** The readable parts of markup: its text, and attributes that are shown. */
function readIn(markup: string): string {
  const shown = [...markup.matchAll(/\b(?:alt|aria-label|placeholder|title)="([^"]*)"/g)].map(([, words]) => words ?? '')
  const text = markup.replace(/<style>.*?<\/style>/gs, ' ').replace(/<[^>]*(?:>|$)/g, '\n')
  return [text, ...shown].join('\n')
}

function isForDevelopers(node: Node): boolean {
  const text = node.type === 'TemplateLiteral' ? wholeTemplate(node) : node['value']
  return typeof text === 'string' && /^[\p{Ll}…]/u.test(text) && !/[.!?]$/.test(text)
}

function wholeTemplate(node: Node): string {
  return nodesIn(node['quasis'])
    .map(({ value }) => (value as { cooked: string | null }).cooked ?? '')
    .join('…')
}

function propertyOf(callee: unknown): unknown {
  return isNode(callee) && callee.type === 'MemberExpression' ? callee['property'] : null
}

function nameOf(node: unknown): string {
  return isNode(node) && typeof node['name'] === 'string' ? node['name'] : ''
}

function nodesIn(values: unknown): Node[] {
  return Array.isArray(values) ? values.flat().filter(isNode) : []
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'
}
