import { useRef } from 'preact/hooks'
import { sizeText } from '../messages/index.ts'
import { dateText, folder as text } from '../messages/folder.ts'
import { shownName } from '../names/index.ts'
import { SaveLink } from '../save/SaveLink.tsx'
import { fileLink } from '../ui/location.ts'
import { FileIcon } from './FileIcon.tsx'
import { Thumbnail } from './Thumbnail.tsx'
import { nameOf, type Row } from './tree.ts'
import { remPixels, useVisible } from './use-visible.ts'

/** The height of a line, as in the style sheet. */
const LINE_REM = 3

interface FileRowsProps {
  rows: readonly Row[]
  /** The path of the file that is shown above the list. */
  open: string | null
  onFolder(path: string): void
}

/** Files and folders, one a line. Only the lines in view are in the document. */
export function FileRows({ rows, open, onFolder }: FileRowsProps) {
  const list = useRef<HTMLUListElement>(null)
  const line = remPixels(LINE_REM)
  const { from, to } = useVisible(rows.length, line, list)
  return (
    <ul ref={list} class="file-rows" style={{ height: `${rows.length * line}px`, paddingTop: `${from * line}px` }} onKeyDown={moveFocus}>
      {rows.slice(from, to).map((row, i) => (
        <li
          key={row.kind === 'folder' ? `${row.folder.path}/` : row.file.path}
          style={{ '--depth': row.depth }}
          aria-setsize={rows.length}
          aria-posinset={from + i + 1}
        >
          {row.kind === 'folder' ? <FolderLine row={row} onFolder={onFolder} /> : <FileLine row={row} isOpen={row.file.path === open} />}
        </li>
      ))}
    </ul>
  )
}

function FolderLine({ row, onFolder }: { row: Extract<Row, { kind: 'folder' }>; onFolder(path: string): void }) {
  const { folder, isOpen } = row
  return (
    <>
      <FileIcon />
      <button type="button" class="folder-name" aria-expanded={isOpen} translate={false} onClick={() => onFolder(folder.path)}>
        <bdi>{shownName(folder.name)}</bdi>
      </button>
      <span class="date">{text('inside', { count: folder.count })}</span>
      <span class="size">{sizeText(folder.bytes)}</span>
    </>
  )
}

function FileLine({ row, isOpen }: { row: Extract<Row, { kind: 'file' }>; isOpen: boolean }) {
  const { file, name } = row
  const path = shownName(file.path)
  return (
    <>
      <Thumbnail file={file} />
      <a href={fileLink(file.path)} dir="auto" translate={false} title={path} aria-label={path} aria-current={isOpen ? 'true' : undefined}>
        {shownName(name)}
      </a>
      <span class="date">{file.modified !== undefined && dateText(file.modified)}</span>
      <span class="size">{(file.size > 0 || !file.isEstimate) && sizeText(file.size)}</span>
      <SaveLink file={{ ...file, name: nameOf(file.path) }} isIcon />
    </>
  )
}

/** The arrow keys move between lines; those to the side open and close a folder. */
function moveFocus(event: KeyboardEvent): void {
  const line = event.target instanceof Element ? event.target.closest('li') : null
  if (line === null || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return
  const folder = line.querySelector<HTMLElement>('[aria-expanded]')
  const isOpen = folder?.getAttribute('aria-expanded') === 'true'
  switch (event.key) {
    case 'ArrowDown':
      focusIn(line.nextElementSibling)
      break
    case 'ArrowUp':
      focusIn(line.previousElementSibling)
      break
    case 'ArrowRight':
      if (folder !== null && !isOpen) folder.click()
      break
    case 'ArrowLeft':
      if (isOpen) folder?.click()
      break
    default:
      return
  }
  event.preventDefault()
}

function focusIn(line: Element | null): void {
  const target = line?.querySelector<HTMLElement>('a, .folder-name')
  target?.focus({ preventScroll: true })
  target?.scrollIntoView({ block: 'nearest' })
}
