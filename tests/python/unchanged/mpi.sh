# needs: mpicc mpiexec
cat > p.c << 'END'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int rank, bad = 0, data[1000], back[1000];
  MPI_File file;
  MPI_Datatype every_other;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 1000; i++) data[i] = rank * 1000 + i;
  MPI_Type_vector(1000, 1, 2, MPI_INT, &every_other);
  MPI_Type_commit(&every_other);
  MPI_File_open(MPI_COMM_WORLD, "shared", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  MPI_File_set_view(file, rank * 4, MPI_INT, every_other, "native", MPI_INFO_NULL);
  MPI_File_write_all(file, data, 1000, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_sync(file);
  MPI_File_read_at_all(file, 0, back, 1000, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
  for (int i = 0; i < 1000; i++) bad += back[i] != data[i];
  printf("wrong: %d\n", bad);
  MPI_Finalize();
  return 0;
}
END
mpicc p.c -o p
mpiexec -n 2 ./p
rm p
