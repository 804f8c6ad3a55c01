import { useEffect } from 'preact/hooks'
import { Ridge } from '../ui/Ridge.tsx'
import { shell } from '../words/shell.ts'
import { wearFace } from '../ui/tab.ts'

export function NotFound({ path }: { path: string }) {
  useEffect(() => wearFace(shell('nowhereTitle'), 'dark'), [])
  return (
    <section class="plain">
      <h1>{shell('nowhere')}</h1>
      <p>
        {shell.around('nowhereWhy', {
          path: <code translate={false}>{path}</code>,
          example: <code translate={false}>/p/…</code>,
        })}
      </p>
      <p>
        <a class="button" href="/">
          {shell('lightOne')}
        </a>
      </p>
      <Ridge fires={0} />
    </section>
  )
}
