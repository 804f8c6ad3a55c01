import type { ComponentChildren } from 'preact'
import { files as text } from '../messages/files.ts'
import { sizeText } from '../messages/index.ts'
import { shownName } from '../names/index.ts'
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

/** The title of a file, and below it what a person needs to find or save it: its path and size. */
export function FileHead({ path, page, size, children }: FileHeadProps) {
  return (
    <header class="bar">
      <h1 class="name" dir="auto" translate={path === null}>
        {path === null ? text('nameless') : titleOf(path, page)}
      </h1>
      <p>
        {path !== null && (
          <>
            <bdi translate={false}>{shownName(path)}</bdi>
            {' · '}
          </>
        )}
        <span>{sizeText(size)}</span>
      </p>
      {children}
    </header>
  )
}
