import { useEffect, useRef, useState } from 'preact/hooks'
import { shownName } from '../names/index.ts'
import { fileLink } from '../ui/location.ts'
import type { DirectoryFile } from '../ui/site.ts'
import { Thumbnail } from './Thumbnail.tsx'
import { nameOf } from './tree.ts'
import { remPixels, useVisible } from './use-visible.ts'

/** The smallest width of a tile, and the height of a line of tiles with its gap, as in the style sheet. */
const TILE_REM = 9
const LINE_REM = 11.5

/** The pictures of a folder in a grid. Only the tiles in view are in the document. */
export function Gallery({ pictures }: { pictures: readonly DirectoryFile[] }) {
  const list = useRef<HTMLUListElement>(null)
  const [columns, setColumns] = useState(1)
  useEffect(() => {
    const grid = list.current
    if (grid === null) return
    const watching = new ResizeObserver(() => setColumns(Math.max(2, Math.floor(grid.clientWidth / remPixels(TILE_REM)))))
    watching.observe(grid)
    return () => watching.disconnect()
  }, [])
  const line = remPixels(LINE_REM)
  const lines = Math.ceil(pictures.length / columns)
  const { from, to } = useVisible(lines, line, list)
  return (
    <ul ref={list} class="gallery" style={{ '--columns': columns, height: `${lines * line}px`, paddingTop: `${from * line}px` }}>
      {pictures.slice(from * columns, to * columns).map((file) => (
        <li key={file.path}>
          <a href={fileLink(file.path)} aria-label={shownName(file.path)} title={shownName(file.path)} translate={false}>
            <Thumbnail file={file} />
            <span class="caption" dir="auto">
              {shownName(nameOf(file.path))}
            </span>
          </a>
        </li>
      ))}
    </ul>
  )
}
