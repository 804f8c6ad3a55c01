// Reads a page aloud as text, from Chromium's accessibility tree: roles, names and states in the order of a screen reader.

/** Roles that are read with their name, and whose content is their name. */
const LEAVES = new Set([
  'button',
  'link',
  'textbox',
  'searchbox',
  'radio',
  'switch',
  'checkbox',
  'combobox',
  'progressbar',
  'image',
  'img',
  'heading',
  'DisclosureTriangle',
])
/** Roles that are read at their start, with their content after them. */
const GROUPS = new Set([
  'main',
  'banner',
  'navigation',
  'contentinfo',
  'region',
  'article',
  'form',
  'group',
  'radiogroup',
  'log',
  'alert',
  'status',
])
/** Roles whose words are one text, unless a control is among them. */
const TEXTS = new Set(['paragraph', 'listitem', 'blockquote', 'LabelText', 'Legend'])
const SAID = { DisclosureTriangle: 'disclosure', image: 'picture', img: 'picture', textbox: 'text field', searchbox: 'search field' }

/** The words of a screen reader for a whole page, or for the part below the element that `selector` finds: a line for each thing. */
export async function readAloud(tab, selector = null) {
  const { nodes, root } = await treeOf(tab, selector)
  const byId = new Map(nodes.map((node) => [node.nodeId, node]))
  const lines = []
  const visit = (node) => {
    if (node === undefined) return
    const line = node.ignored ? null : lineOf(node, byId)
    if (line !== null) lines.push(line)
    if (!node.ignored && LEAVES.has(node.role?.value)) return
    const words = TEXTS.has(node.role?.value) ? wordsOf(node, byId) : null
    if (words !== null) return void lines.push(words)
    for (const id of node.childIds ?? []) visit(byId.get(id))
  }
  visit(root)
  return lines.filter((line, i) => line !== '' && !isNameOf(line, lines[i - 1]))
}

/** Whether a text is the label of the control before it, which was read with the control. */
function isNameOf(line, before) {
  return before === line || before?.replace(/^[\w ]+: /, '').split(', ')[0] === line
}

/** All words below an element; `null` when there is a control among them. */
function wordsOf(node, byId) {
  if (LEAVES.has(node.role?.value) && !node.ignored) return null
  if (node.role?.value === 'StaticText') return node.name?.value ?? ''
  const parts = (node.childIds ?? []).map((id) => byId.get(id)).filter((child) => child && child.role?.value !== 'ListMarker')
  const words = parts.map((child) => wordsOf(child, byId))
  return words.includes(null) ? null : words.join('').trim()
}

/** The words of a screen reader for the element that has the focus. */
export async function readFocus(tab) {
  const { nodes } = await treeOf(tab, null)
  const focused = nodes.findLast(({ role, properties }) => role?.value !== 'RootWebArea' && propertyOf(properties, 'focused') === true)
  return focused === undefined ? 'nothing' : (lineOf(focused, new Map(nodes.map((node) => [node.nodeId, node]))) ?? focused.role.value)
}

async function treeOf(tab, selector) {
  const session = await tab.context().newCDPSession(tab)
  try {
    const { nodes } = await session.send('Accessibility.getFullAXTree')
    if (selector === null) return { nodes, root: nodes[0] }
    const { root: document } = await session.send('DOM.getDocument')
    const { nodeId } = await session.send('DOM.querySelector', { nodeId: document.nodeId, selector })
    const { node } = await session.send('DOM.describeNode', { nodeId })
    return { nodes, root: nodes.find(({ backendDOMNodeId }) => backendDOMNodeId === node.backendNodeId) }
  } finally {
    await session.detach()
  }
}

function lineOf(node, byId) {
  const role = node.role?.value
  const name = node.name?.value ?? ''
  if (role === 'StaticText') return name.trim() === '' ? null : name.trim()
  if (role === 'list') return `list of ${(node.childIds ?? []).map((id) => byId.get(id)).filter((item) => item?.ignored === false).length}`
  if (GROUPS.has(role)) return name === '' ? (role === 'main' ? 'main' : null) : `${role}: ${name}`
  if (!LEAVES.has(role)) return null
  const states = statesOf(node)
  return `${SAID[role] ?? role}${role === 'heading' ? ` ${propertyOf(node.properties, 'level')}` : ''}: ${[name || 'WITHOUT A NAME', ...states].join(', ')}`
}

/** The states that a screen reader adds to a name. */
function statesOf({ role, name, value, properties, description }) {
  const states = []
  const checked = propertyOf(properties, 'checked')
  if (checked !== undefined)
    states.push(role.value === 'switch' ? (checked === 'true' ? 'on' : 'off') : checked === 'true' ? 'chosen' : 'not chosen')
  const pressed = propertyOf(properties, 'pressed')
  if (pressed !== undefined) states.push(pressed === 'true' ? 'pressed' : 'not pressed')
  const expanded = propertyOf(properties, 'expanded')
  if (expanded !== undefined) states.push(expanded ? 'open' : 'closed')
  if (propertyOf(properties, 'disabled')) states.push('unavailable')
  if (['textbox', 'searchbox', 'combobox'].includes(role.value) && value?.value)
    states.push(`contains “${String(value.value).replaceAll('\n', ' / ')}”`)
  // Screen readers leave out a tooltip that repeats the name.
  if (description?.value && description.value !== name?.value) states.push(description.value)
  return states
}

function propertyOf(properties, name) {
  return properties?.find((property) => property.name === name)?.value.value
}
