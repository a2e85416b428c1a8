from ploff.environments.stepper import ThreadedStepper


def test_a_threaded_stepper_steps_every_piece_once_a_round():
    class Piece:
        steps = 0

        def step(self):
            self.steps += 1

    pieces = [Piece() for _ in range(9)]
    with ThreadedStepper(3) as stepper:
        for _ in range(200):
            stepper.step_all(pieces)
    assert [piece.steps for piece in pieces] == [200] * 9
