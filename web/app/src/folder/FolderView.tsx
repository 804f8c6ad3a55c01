import '../style/folder.css'
import { useMemo, useState } from 'preact/hooks'
import { sizeText } from '../messages/index.ts'
import { files as filesText } from '../messages/files.ts'
import { folder as text } from '../messages/folder.ts'
import { SaveAll } from '../save/SaveAll.tsx'
import type { DirectoryFile } from '../ui/site.ts'
import { useWork } from '../ui/use-work.ts'
import { FileRows } from './FileRows.tsx'
import { Gallery } from './Gallery.tsx'
import { hasThumbnail } from './Thumbnail.tsx'
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
  /** Whether more files and sizes are still to come. */
  isPartial: boolean
}

/** The files of a page, as a tree or as a gallery. */
export function FolderView({ files, name, open, isPartial }: FolderViewProps) {
  const [order, setOrder] = useState<Order>('name')
  const [words, setWords] = useState('')
  const [isGallery, setGallery] = useState(false)
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set())
  const arrangement = useWork(
    () => arranged(files, { order, words, isPicture: hasThumbnail, isOpen: (path, lines) => toggled.has(path) !== lines <= OPEN_MAX }),
    [files, order, words, toggled],
  )
  const { rows, pictures } = arrangement ?? { rows: [], pictures: [] }
  const bytes = useMemo(() => files.reduce((sum, { size }) => sum + size, 0), [files])
  const toggle = (path: string) => {
    const changed = new Set(toggled)
    if (!changed.delete(path)) changed.add(path)
    setToggled(changed)
  }
  const isPictures = isGallery && (pictures.length > 0 || words !== '')
  const shown = isPictures ? pictures : rows
  const Title = open === null ? 'h1' : 'h2'
  return (
    <section class="listing" aria-label={filesText('all')}>
      <Title class="name" dir="auto" translate={name === null}>
        {name ?? filesText('list')}
      </Title>
      <p class="total">{filesText('total', { count: files.length, size: sizeText(bytes) })}</p>
      {files.length > 1 && <SaveAll name={name ?? 'page'} files={files} isReady={!isPartial} />}
      {(files.length >= FILTERED_MIN || pictures.length > 1) && (
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
          {pictures.length > 1 && (
            <button type="button" aria-pressed={isGallery} onClick={() => setGallery(!isGallery)}>
              {text('gallery')}
            </button>
          )}
        </div>
      )}
      {words !== '' && (
        <p class="total" role="status">
          {text('matching', { count: shown.length })}
        </p>
      )}
      {arrangement === null ? (
        <p class="fetching" aria-busy="true" />
      ) : isPictures ? (
        <Gallery pictures={pictures.flatMap((row) => (row.kind === 'file' ? [row.file] : []))} />
      ) : (
        <FileRows rows={rows} open={open} onFolder={toggle} />
      )}
    </section>
  )
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
