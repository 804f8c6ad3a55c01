import '../style/folder.css'
import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { sizeText } from '../messages/index.ts'
import { files as filesText } from '../messages/files.ts'
import { folder as text } from '../messages/folder.ts'
import { SaveAll } from '../save/SaveAll.tsx'
import { fileLink, route } from '../ui/location.ts'
import { replaceAddress } from '../ui/replace-address.ts'
import { pageAddress } from '@watchfire/pages/addresses'
import type { DirectoryFile } from '../ui/site.ts'
import { useWork } from '../ui/use-work.ts'
import { FileRows } from './FileRows.tsx'
import { Gallery } from './Gallery.tsx'
import { LightBox } from './LightBox.tsx'
import { arranged, type Order } from './tree.ts'

/** A folder of up to this many lines is shown with all its folders open. */
const OPEN_MAX = 200
/** A shorter list needs no filter. */
const FILTERED_MIN = 8

export interface FolderViewProps {
  files: readonly DirectoryFile[]
  /** The name of the page; `null` when it has none. */
  name: string | null
  /** The path of the file that is shown above the list; `null` when the folder is all that is shown. */
  open: string | null
  /** The picture that is shown above all else, by its path, and its view. */
  boxed: { path: string; view: ComponentChildren } | null
  /** Whether more files and sizes are still to come. */
  isPartial: boolean
}

/** The files of a page, as a tree or as a gallery. */
export function FolderView({ files, name, open, boxed, isPartial }: FolderViewProps) {
  const section = useRef<HTMLElement>(null)
  const closeBox = useBox(section, boxed?.path ?? null)
  const [order, setOrder] = useState<Order>('name')
  const [words, setWords] = useState('')
  const [chosen, setChosen] = useState<boolean | null>(null)
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set())
  const arrangement = useWork(
    () => arranged(files, { order, words, isGallery: chosen, isOpen: (path, lines) => toggled.has(path) !== lines <= OPEN_MAX }),
    [files, order, words, toggled, chosen],
  )
  const { rows, pictures, pictureCount, isGallery } = arrangement ?? { rows: [], pictures: [], pictureCount: 0, isGallery: false }
  const bytes = useMemo(() => files.reduce((sum, { size }) => sum + size, 0), [files])
  const toggle = (path: string) => {
    const changed = new Set(toggled)
    if (!changed.delete(path)) changed.add(path)
    setToggled(changed)
  }
  const shownCount = rows.length + (isGallery ? pictures.length : 0)
  const Title = open === null && boxed === null ? 'h1' : 'h2'
  return (
    <section ref={section} class="listing" aria-label={filesText('all')}>
      <Title class="name" dir="auto" translate={name === null}>
        {name ?? (isGallery ? text('pictures', { count: pictureCount }) : filesText('list'))}
      </Title>
      <p class="total">{totalText(name, files.length, isGallery ? pictureCount : 0, sizeText(bytes))}</p>
      {files.length > 1 && <SaveAll name={name ?? 'page'} files={files} isReady={!isPartial} />}
      {(files.length >= FILTERED_MIN || pictureCount > 1) && (
        <div class="bar folder-tools">
          {files.length >= FILTERED_MIN && (
            <input
              type="search"
              aria-label={text('filter')}
              placeholder={text('filter')}
              value={words}
              onInput={({ currentTarget }) => setWords(currentTarget.value)}
            />
          )}
          <OrderChoice order={order} hasDates={files.some(({ modified }) => modified !== undefined)} onOrder={setOrder} />
          {pictureCount > 1 && (
            <button type="button" aria-pressed={isGallery} onClick={() => setChosen(!isGallery)}>
              {text('gallery')}
            </button>
          )}
        </div>
      )}
      {words !== '' && (
        <p class="total" role="status">
          {text('matching', { count: shownCount })}
        </p>
      )}
      {arrangement === null && <p class="fetching" aria-busy="true" />}
      {isGallery && pictures.length > 0 && <Gallery pictures={pictures} />}
      {rows.length > 0 && <FileRows rows={rows} open={open} onFolder={toggle} />}
      {boxed !== null && (
        <LightBox pictures={pictures} path={boxed.path} onClose={closeBox}>
          {boxed.view}
        </LightBox>
      )}
    </section>
  )
}

/** The number and the size of all files. A title that says how many pictures there are is not repeated. */
function totalText(name: string | null, fileCount: number, pictureCount: number, size: string): string {
  if (pictureCount < fileCount) return filesText('total', { count: fileCount, size })
  return name === null ? text('inAll', { size }) : text('picturesInAll', { count: pictureCount, size })
}

/** Follows the picture above all else. Once there is none, its link in the list has the focus. Returns what closes it. */
function useBox(section: { readonly current: Element | null }, path: string | null): () => void {
  const before = useRef<string | null>(null)
  /** Whether the link to the page named a picture. Then no view of ours is behind it in the history. */
  const isFirst = useRef(path !== null)
  useEffect(() => {
    const left = path === null ? before.current : null
    before.current = path
    if (left === null) return
    isFirst.current = false
    // After the focus has followed the address to the start of the content.
    queueMicrotask(() => section.current?.querySelector<HTMLElement>(`a[href="${fileLink(left)}"]`)?.focus({ preventScroll: true }))
  }, [path])
  return () => {
    const place = route.peek()
    // Back has closed it already.
    if (place.kind !== 'page' || place.file === null) return
    if (isFirst.current) replaceAddress(pageAddress(place.cid, place.filename, place.key))
    else history.back()
  }
}

function OrderChoice({ order, hasDates, onOrder }: { order: Order; hasDates: boolean; onOrder(order: Order): void }) {
  return (
    <label class="order">
      {text('sort')}
      <select value={order} onChange={({ currentTarget }) => onOrder(currentTarget.value as Order)}>
        <option value="name">{text('byName')}</option>
        <option value="size">{text('bySize')}</option>
        {hasDates && <option value="date">{text('byDate')}</option>}
        <option value="kind">{text('byKind')}</option>
      </select>
    </label>
  )
}
