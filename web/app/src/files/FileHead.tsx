import type { ComponentChildren } from 'preact'
import { files as text } from '../messages/files.ts'
import { sizeText } from '../messages/index.ts'
import { titleOf } from './title.ts'

interface FileHeadProps {
  /** The path in the page; `null` for a file without a name. */
  path: string | null
  /** The name of the page; `null` when it has none, or is this file. */
  page: string | null
  size: number
  /** The button that saves it. */
  children: ComponentChildren
}

/** The title of a file, and what else a person needs to find or save it: its folders and size. */
export function FileHead({ path, page, size, children }: FileHeadProps) {
  const { title, place } = path === null ? { title: text('nameless'), place: null } : titleOf(path, page)
  return (
    <header class="bar">
      <h1 class="name" dir="auto" translate={path === null}>
        {title}
      </h1>
      <p>
        {place !== null && (
          <>
            <bdi translate={false}>{place}</bdi>
            {' · '}
          </>
        )}
        <span>{sizeText(size)}</span>
      </p>
      {children}
    </header>
  )
}
