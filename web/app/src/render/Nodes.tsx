import { useLayoutEffect, useRef } from 'preact/hooks'

interface BuiltProps {
  of: DocumentFragment
  as: 'pre' | 'div'
  class: string
  dir?: 'auto'
  tabIndex?: number
  onClick?: (event: MouseEvent) => void
}

/** Inserts nodes that were built elsewhere, and leaves them as they are. They are moved, so a picture can still be added to them. */
export function Nodes({ of, as: Tag, ...rest }: BuiltProps) {
  const holder = useRef<HTMLDivElement & HTMLPreElement>(null)
  useLayoutEffect(() => {
    holder.current?.replaceChildren(of)
  }, [of])
  return <Tag ref={holder} {...rest} />
}
