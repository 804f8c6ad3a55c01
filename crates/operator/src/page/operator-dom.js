// Elements, tables whose rows keep their identity, and meters. Text always goes through `textContent`.

import { format, short, visible } from './operator-text.js'

/** An element with properties and children. Strings become text nodes. */
export function element(name, properties = {}, ...children) {
  const created = document.createElement(name)
  setAll(created, properties)
  created.append(...children.filter((child) => child !== null))
  return created
}

/** An SVG element with attributes. */
export function svg(name, attributes = {}, ...children) {
  const created = document.createElementNS('http://www.w3.org/2000/svg', name)
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, String(value))
  created.append(...children)
  return created
}

/** Sets attributes; `onclick` and the like are listeners, `className` and `textContent` properties. */
function setAll(target, properties) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue
    if (key.startsWith('on')) target.addEventListener(key.slice(2), value)
    else if (key === 'className' || key === 'textContent') target[key] = value
    else target.setAttribute(key, value === true ? '' : String(value))
  }
}

export const button = (textContent, onclick, properties = {}) => element('button', { type: 'button', textContent, onclick, ...properties })

/** A choice with a label around it. `options` has a name for each value. */
export function select(label, options, onChange = (_value) => {}) {
  const choices = Object.entries(options).map(([value, textContent]) => element('option', { value, textContent }))
  const control = element('select', { onchange: () => onChange(control.value) }, ...choices)
  return { control, field: element('label', {}, label, control) }
}

/** A column of numbers for a `Table`. */
export const numbers = (label, text, /** @type {any} */ sort = '') => ({ label, text, sort, isNumber: true })

/** A column of numbers of a kind, by which the table sorts. */
export const figure = (label, kind, name) =>
  numbers(
    label,
    (row) => format(kind, row[name]),
    (row) => row[name],
  )

/** A view, whose title only a screen reader says. */
export const view = (title, ...children) =>
  element('div', { className: 'view' }, element('h2', { className: 'unseen', textContent: title }), ...children)

export const section = (title, ...children) => element('section', {}, element('h2', { textContent: title }), ...children)

/** Changes the text only when it differs, so that a selection survives a refresh. */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text
}

export function setAttribute(target, name, value) {
  if (target.getAttribute(name) !== String(value)) target.setAttribute(name, String(value))
}

/** A text of a client, cut and isolated from the direction of its surroundings. */
export function clientText(text, max) {
  return element('bdi', { className: 'client', textContent: short(text, max) })
}

export function wholeClientText(text) {
  return element('bdi', { className: 'client whole', textContent: visible(text) })
}

/**
 * Makes the children of a parent those of the items, in order. The child of an item stays the same element, and keeps
 * the focus when it moves. A child is an element, or an object with an `element`.
 */
export class KeyedChildren {
  #parent
  #keyOf
  #create
  #update
  #children = new Map()

  constructor(parent, { keyOf, create, update }) {
    this.#parent = parent
    this.#keyOf = keyOf
    this.#create = create
    this.#update = update
  }

  update(items) {
    const focused = this.#parent.contains(document.activeElement) ? document.activeElement : null
    const kept = new Map()
    for (const item of items) {
      const key = this.#keyOf(item)
      if (kept.has(key)) continue
      const child = this.#children.get(key) ?? this.#create(item)
      this.#update(child, item)
      kept.set(key, child)
    }
    for (const [key, child] of this.#children) if (!kept.has(key)) elementOf(child).remove()
    let next = this.#parent.firstChild
    for (const child of [...kept.values()].map(elementOf)) {
      if (child === next) next = next.nextSibling
      else this.#parent.insertBefore(child, next)
    }
    this.#children = kept
    if (!focused || document.activeElement === focused) return
    // The focus of a row that is gone goes to the box around the rows.
    const heir = focused.isConnected ? focused : this.#parent.closest('[tabindex]')
    heir?.focus({ preventScroll: true })
  }
}

const elementOf = (child) => child.element ?? child

/**
 * A table in a box of its own that scrolls. Each column has a `label`, and either `text(row)`, or `value(row)` and
 * `nodes(value)`. Numbers are at the end of their cell, and a long text gets the room that is left. A click anywhere in a row
 * calls `onRow`.
 *
 * A head that sorts is a button. Where the server sorts, a column with `sort` calls `onSort` with it. Otherwise the table sorts
 * its rows by `sort(row)`, or by the text of the column; an empty `sort` has no button.
 */
export class Table {
  element
  #columns
  #rows
  #empty
  #body = element('tbody')
  #headers = new Map()
  #rowOf = new WeakMap()
  #data = []
  /** @type {((row: any) => any) | null} The order that the operator has chosen. */
  #order = null
  #isDescending = false

  /** @param {{ caption: string, columns: any[], keyOf: Function, empty?: string, onSort?: Function | null, onRow?: Function | null }} options */
  constructor({ caption, columns, keyOf, empty = 'None', onSort = null, onRow = null }) {
    this.#columns = columns
    this.#empty = element('p', { className: 'small', textContent: empty })
    const header = (column) => {
      const sort = onSort ? column.sort : (column.sort ?? column.text ?? column.value)
      const choose = () => (onSort ? onSort(sort) : this.#sortBy(sort, column))
      const label = sort ? button(column.label, choose, { className: 'sort' }) : column.label
      const cell = element('th', { scope: 'col', className: classOf(column) }, label)
      if (sort) this.#headers.set(sort, cell)
      return cell
    }
    const head = element('thead', {}, element('tr', {}, ...columns.map(header)))
    const table = element('table', {}, element('caption', { className: 'unseen', textContent: caption }), head, this.#body)
    const box = element('div', { className: 'scroll', role: 'region', 'aria-label': caption, tabindex: 0 }, table)
    this.element = element('div', { className: 'table' }, box, this.#empty)
    this.#rows = new KeyedChildren(this.#body, {
      keyOf,
      create: () => element('tr', {}, ...columns.map((column) => cellOf(column))),
      update: (line, row) => {
        this.#rowOf.set(line, row)
        for (const [index, column] of this.#columns.entries()) fillCell(line.children[index], column, row)
      },
    })
    if (onRow) {
      this.#body.className = 'opens'
      this.#body.addEventListener('click', ({ target }) => {
        // Selecting text to copy it ends with a click too.
        const isSelecting = getSelection()?.isCollapsed === false && !target.closest('button')
        const line = target.closest('tr')
        if (line && !isSelecting) onRow(this.#rowOf.get(line))
      })
    }
  }

  update(rows) {
    this.#data = rows
    const order = this.#order
    const sign = this.#isDescending ? -1 : 1
    this.#rows.update(order ? rows.toSorted((one, other) => sign * compare(order(one), order(other))) : rows)
    this.#empty.hidden = rows.length > 0
  }

  /** Sorts by a column, numbers from the highest on. The second time, the order is reversed. */
  #sortBy(order, { isNumber = false }) {
    this.#isDescending = this.#order === order ? !this.#isDescending : isNumber
    this.#order = order
    this.markSorted(order, this.#isDescending ? 'descending' : 'ascending')
    this.update(this.#data)
  }

  /** Marks the column by which the rows are sorted. Where the server has sorted, the highest value comes first. */
  markSorted(sort, direction = 'descending') {
    for (const [name, cell] of this.#headers) setAttribute(cell, 'aria-sort', name === sort ? direction : 'none')
  }
}

/** The order of two numbers or texts. A missing value is an empty text. */
function compare(one, other) {
  if (typeof one === 'number' && typeof other === 'number') return one - other
  return String(one ?? '').localeCompare(String(other ?? ''), 'en', { numeric: true })
}

function classOf({ isNumber, isLong }) {
  if (isNumber) return 'number'
  return isLong ? 'long' : ''
}

function cellOf(column) {
  const className = classOf(column)
  return column.isHeader ? element('th', { scope: 'row', className }) : element('td', { className })
}

/** The value that each cell shows by its nodes. */
const shownIn = new WeakMap()

/** Replaces the nodes of a cell only with its value: every second, the person would lose what they select or focus. */
function fillCell(cell, column, row) {
  if (column.text) return setText(cell, column.text(row))
  const value = column.value(row)
  const key = JSON.stringify(value)
  if (shownIn.get(cell) === key) return
  shownIn.set(cell, key)
  cell.replaceChildren(...column.nodes(value))
}

/** Names and values. */
export class Facts {
  element = element('dl', { className: 'facts' })
  #children = new KeyedChildren(this.element, {
    keyOf: ([name]) => name,
    create: ([name]) => element('div', {}, element('dt', { textContent: name }), element('dd')),
    update: (line, [, value]) => {
      if (typeof value === 'string') setText(line.lastChild, value)
      else if (line.lastChild.textContent !== value.textContent) line.lastChild.replaceChildren(value)
    },
  })

  /** Pairs of a name, and a text or an element. */
  update(pairs) {
    this.#children.update(pairs)
  }
}

/** A bar of use. Its colour only repeats what the text beside it says. */
export class Meter {
  element
  #fill = element('div', { className: 'fill' })

  constructor(label) {
    this.element = element(
      'div',
      { className: 'meter', role: 'meter', 'aria-label': label, 'aria-valuemin': 0, 'aria-valuemax': 100 },
      this.#fill,
    )
  }

  /** `share` is from 0 to 1; `text` is what a screen reader says. */
  update(share, text) {
    const percent = Math.round(100 * Math.min(Math.max(share, 0), 1))
    setAttribute(this.element, 'aria-valuenow', percent)
    setAttribute(this.element, 'aria-valuetext', text)
    setAttribute(this.element, 'data-level', levelOf(share))
    this.#fill.style.width = `${percent}%`
  }
}

function levelOf(share) {
  if (share >= 0.9) return 'full'
  return share >= 0.75 ? 'high' : 'fine'
}
